//! The full-text index of the service `search`, as `aund bench --search` measures it: without a server around it.

use std::path::Path;

use anyhow::Context as _;
use bench::{BenchDocument, BenchHit, BenchIndex, BenchIndexMaker, BenchRow, PendingPublish};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kernel::agent_md::AgentMd;
use kernel::{Aid, Caller, StoreUrl, World};
use proto_schemas::requests::agent::PutAgentMd;
use service_search::index::brute_force::BruteForce;
use service_search::index::plain_text::{markdown_text, skills_text};
use service_search::index::words::{normalised, terms, units};
use service_search::index::{IndexChange, IndexQuery, IndexedDocument, Rank, TextIndex};

/// As many as the service adds to its index at once.
const DOCUMENTS_AT_ONCE: usize = 1000;
const PUBLISHED_AT_ONCE: usize = 16;

/// Makes the index that the server has.
pub(super) struct ServerIndexMaker;

struct ServerIndex {
    index: TextIndex,
    brute_force: BruteForce,
}

impl BenchIndexMaker for ServerIndexMaker {
    fn make(&self, folder: &Path, documents: &[BenchDocument]) -> anyhow::Result<Box<dyn BenchIndex>> {
        let (index, mut brute_force) = (TextIndex::open(folder)?, BruteForce::default());
        for documents in documents.chunks(DOCUMENTS_AT_ONCE) {
            let changes =
                documents.iter().map(|document| Ok(IndexChange::Upsert(Box::new(indexed(document)?))));
            let changes: Vec<IndexChange> = changes.collect::<anyhow::Result<_>>()?;
            brute_force.apply(changes.clone());
            index.apply(changes, 1)?;
        }
        Ok(Box::new(ServerIndex { index, brute_force }))
    }

    fn publish<'a>(
        &'a self,
        data: &'a Path,
        issuer: &'a str,
        documents: &'a [BenchDocument],
    ) -> PendingPublish<'a> {
        Box::pin(async move {
            let world = World::local(issuer, data, StoreUrl::Sqlite(data.to_owned()));
            let mut service = service_agent::open(&world, &service_agent::Settings::default()).await?;
            // There is no authority to ask for revoked agents.
            service.tasks.clear();
            world.add(service);
            let publishing = documents.iter().map(|document| {
                let BenchDocument { aid, content, .. } = document.clone();
                let mesh = &world.mesh;
                async move {
                    let aid = Aid::parse(&aid)?;
                    let put = PutAgentMd { aid, content, if_match: None, if_none_match: None };
                    mesh.ask(Caller::Operator, &put).await?;
                    anyhow::Ok(())
                }
            });
            stream::iter(publishing).buffer_unordered(PUBLISHED_AT_ONCE).try_collect::<Vec<()>>().await?;
            Ok(())
        })
    }
}

fn indexed(document: &BenchDocument) -> anyhow::Result<IndexedDocument> {
    let BenchDocument { aid, content, signed, updated_at } = document;
    let parsed = AgentMd::parse(content).with_context(|| format!("the document of {aid} cannot be read"))?;
    let mut tags: Vec<String> = parsed.front.tags.iter().map(|tag| normalised(tag)).collect();
    tags.sort();
    tags.dedup();
    Ok(IndexedDocument {
        aid: aid.clone(),
        name: parsed.front.name,
        kind: parsed.front.kind,
        description: parsed.front.description.unwrap_or_default(),
        tags,
        skills: skills_text(&parsed.front.skills),
        body: markdown_text(&content[parsed.body]),
        signed: *signed,
        updated_at: *updated_at,
        source_ap: "search.agents.localhost".to_owned(),
        issuer: "agents.localhost".to_owned(),
    })
}

impl BenchIndex for ServerIndex {
    fn rows(&self) -> Vec<BenchRow> {
        let row = |document: &IndexedDocument| {
            let IndexedDocument { aid, name, description, .. } = document;
            let [named, tags, skills, _, described, body] = document.texts();
            let texts = [named, tags, skills, described, body].map(|text| words(&text));
            BenchRow { aid: aid.clone(), name: name.clone(), description: description.clone(), texts }
        };
        self.brute_force.documents().map(row).collect()
    }

    fn words(&self, question: &str) -> Vec<String> {
        units(question).into_iter().map(|unit| unit.text).collect()
    }

    fn query(&self, question: &str, now_ms: i64, limit: usize) -> anyhow::Result<Vec<BenchHit>> {
        let found = self.index.query(&query(question, now_ms), None, limit)?;
        Ok(found.hits.into_iter().map(|found| hit(found.rank)).collect())
    }

    fn brute_force(&self, question: &str, now_ms: i64, limit: usize) -> Vec<BenchHit> {
        self.brute_force.query(&query(question, now_ms)).into_iter().take(limit).map(hit).collect()
    }
}

/// The words of a text as they are written: the other side knows no stems, no pairs and no single characters.
fn words(text: &str) -> String {
    let written = terms(text).into_iter().filter_map(|term| term.strip_prefix('w').map(str::to_owned));
    written.collect::<Vec<_>>().join(" ")
}

fn query(question: &str, now_ms: i64) -> IndexQuery {
    IndexQuery { q: question.to_owned(), now_ms, ..IndexQuery::default() }
}

fn hit(rank: Rank) -> BenchHit {
    (rank.aid, rank.score.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_the_bench_answers_as_a_look_at_every_document_does() {
        let document = |number: i64| BenchDocument {
            aid: format!("agent-{number}.agents.localhost"),
            content: format!(
                "---\naid: \"agent-{number}.agents.localhost\"\nname: Agent {number}\ntype: assistant\nversion: 1.0.0\n\
                 description: Reads code\ntags: [Rust]\nskills: [review]\n---\n\n# Text {number}\n"
            ),
            signed: number % 2 == 0,
            updated_at: number,
        };
        let documents: Vec<BenchDocument> = (0..20).map(document).collect();
        let folder = tempfile::tempdir().unwrap();
        let index = ServerIndexMaker.make(folder.path(), &documents).unwrap();
        let found = index.query("code 7", 100, 5).unwrap();
        assert_eq!(found, index.brute_force("code 7", 100, 5));
        assert_eq!(found[0].0, "agent-7.agents.localhost", "it has both words");
        let rows = index.rows();
        assert_eq!(rows[0].texts, ["agent 0 agent0", "rust", "review", "reads code", "text 0"]);
    }
}
