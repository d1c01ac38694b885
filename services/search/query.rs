//! `search.query`: find agents by words and tags.

use super::cursor::QueryCursor;
use super::index::words::{MOST_UNITS, normalised};
use super::index::{Found, Hit, IndexQuery};
use super::{AT_ONCE, Error, SearchService, agent_md_url};
use kernel::{Caller, PageLimit, iso};
use proto_schemas::requests::search::{Query, QueryItem, QueryPage};
use serde_json::value::to_raw_value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PAGE: PageLimit = PageLimit::new(10, 50);
const MOST_CHARS: usize = 256;
const MOST_TAGS: usize = 10;
const TAG_CHARS: usize = 32;
const PREFIX: &str = "cur_";
/// How long a query can be continued.
const CURSOR_MS: i64 = 600_000;
/// How long a search waits while others run.
const WAIT: Duration = Duration::from_secs(2);

impl SearchService {
    pub(super) async fn query(self: Arc<Self>, caller: Caller, params: Query) -> Result<QueryPage, Error> {
        self.enabled()?;
        let limit = PAGE.of(params.limit).map_err(Error::query)?;
        let cursor = params.cursor.clone();
        let mut query = self.read_query(params)?;
        let hash = self.hash_of(&query);
        let cursor = cursor.map(|cursor| self.continued(&cursor, &hash)).transpose()?;
        if let Some(cursor) = &cursor {
            query.now_ms = cursor.asked_at;
        }

        let states = self.peer_states.get();
        query.hidden = states.hidden.clone();
        let (asked, asked_at) = (query.q.clone(), query.now_ms);
        let level = self.level.load(Ordering::Relaxed);
        let (found, generation) =
            self.find(query, cursor, usize::try_from(limit).unwrap_or_default()).await?;

        if let Ok(agent) = caller.local_agent()
            && !found.hits.is_empty()
        {
            self.query_stats.add(&asked, self.cursors.hash(agent.aid.as_str()));
        }
        let next_cursor = match found.hits.last() {
            Some(last) if found.more => {
                let next = QueryCursor::after(&last.rank, hash, asked_at, generation);
                Some(self.cursors.write(PREFIX, &next)?)
            }
            _ => None,
        };
        let stale = !level || found.hits.iter().any(|hit| states.stale.contains(&hit.source_ap));
        Ok(QueryPage {
            items: found.hits.into_iter().map(item).collect::<Result<_, _>>()?,
            next_cursor,
            stale: stale.then_some(true),
        })
    }

    fn read_query(&self, params: Query) -> Result<IndexQuery, Error> {
        let q = params.q.unwrap_or_default();
        if q.chars().count() > MOST_CHARS {
            return Err(Error::query(format!("q must have at most {MOST_CHARS} characters")));
        }
        let tags = params.tags.unwrap_or_default();
        if tags.len() > MOST_TAGS {
            return Err(Error::query(format!("tags must have at most {MOST_TAGS} entries")));
        }
        if let Some(at) = tags.iter().position(|tag| tag.chars().count() > TAG_CHARS) {
            return Err(Error::query(format!("tags[{at}] must have at most {TAG_CHARS} characters")));
        }
        let mut tags: Vec<String> = tags.iter().map(|tag| normalised(tag)).collect();
        tags.retain(|tag| !tag.is_empty());
        tags.sort();
        tags.dedup();
        let q = q.trim().to_owned();
        if q.is_empty() && tags.is_empty() {
            return Err(Error::query("q and tags must not both be empty"));
        }
        Ok(IndexQuery {
            q,
            tags,
            kind: params.kind,
            issuer: params.issuer.map(|issuer| issuer.to_ascii_lowercase()),
            signed: params.signed,
            hidden: Default::default(),
            now_ms: self.clock.now_ms(),
            explain: params.explain.unwrap_or(false),
        })
    }

    /// What a cursor is bound to: everything that decides which documents are found.
    fn hash_of(&self, query: &IndexQuery) -> String {
        let IndexQuery { q, tags, kind, issuer, signed, .. } = query;
        let text = format!("{:?}", (normalised(q), tags, kind, issuer, signed));
        format!("{:016x}", self.cursors.hash(&text))
    }

    fn continued(&self, cursor: &str, hash: &str) -> Result<QueryCursor, Error> {
        let wrong =
            |sentence: &str, reason| Error::Query { sentence: sentence.to_owned(), reason: Some(reason) };
        let Some(cursor) = self.cursors.read::<QueryCursor>(PREFIX, cursor) else {
            return Err(wrong("cursor must be a next_cursor of this method", "cursor_invalid"));
        };
        let age = self.clock.now_ms() - cursor.asked_at;
        if cursor.hash != hash {
            return Err(wrong("cursor belongs to another query, start again without it", "cursor_expired"));
        }
        if age > CURSOR_MS {
            return Err(wrong("cursor is too old, start again without it", "cursor_expired"));
        }
        Ok(cursor)
    }

    /// Searches on a thread of its own: it computes, and others must not wait for it.
    async fn find(
        &self,
        query: IndexQuery,
        after: Option<QueryCursor>,
        limit: usize,
    ) -> Result<(Found, i64), Error> {
        let permits = permits_of(self.index().documents(), &query.q);
        let permit = tokio::time::timeout(WAIT, self.searches.clone().acquire_many_owned(permits)).await;
        let permit = permit.map_err(|_| Error::Busy)?.map_err(|error| Error::Index(error.into()))?;
        let index = self.index();
        let searching = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let after = after.map(|cursor| cursor.rank());
            let found = index.query(&query, after.as_ref(), limit)?;
            Ok((found, index.generation()))
        });
        searching.await.map_err(|error| Error::Index(error.into()))?.map_err(Error::Index)
    }
}

/// How many of the permits a search takes: one for each 16 MiB of its table, which has four bytes for each document and word. A question
/// has at most as many words as characters.
fn permits_of(documents: u64, question: &str) -> u32 {
    let words = question.chars().take(MOST_UNITS).count() as u64;
    let pieces = documents.saturating_mul(words * 4) / (16 << 20);
    u32::try_from(pieces).map_or(AT_ONCE, |pieces| pieces.clamp(1, AT_ONCE))
}

fn item(hit: Hit) -> Result<QueryItem, Error> {
    let explanation = hit.explanation.map(|explanation| to_raw_value(&explanation)).transpose();
    Ok(QueryItem {
        agent_md_url: agent_md_url(&hit.rank.aid),
        name: hit.name,
        description: hit.description,
        tags: hit.tags,
        kind: hit.kind,
        score: hit.rank.score,
        signed: hit.signed,
        updated_at: iso(hit.rank.updated_at),
        source_ap: hit.source_ap,
        explanation: explanation.map_err(|error| Error::Index(error.into()))?,
        aid: hit.rank.aid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_takes_permits_by_the_size_of_its_table() {
        let long = "word ".repeat(51);
        assert_eq!(permits_of(0, ""), 1);
        assert_eq!(permits_of(100_000, &long), 1);
        assert_eq!(permits_of(1_000_000, "code"), 1);
        assert_eq!(permits_of(1_000_000, &long), 7);
        assert_eq!(permits_of(u64::MAX, &long), AT_ONCE);
    }
}
