//! Queries: which documents have the words of a question, which of them pass the filters, and the best of those.
//!
//! First the postings of all words are read, in all segments, into a table with a byte for each word of each document: how
//! often the document has the word, weighted. How many documents have a word is known only then, and with it what the word
//! is worth. Then each document in the table is scored, and the best are kept. Only those are read from the store.

mod explain;
mod filter;
mod matches;
mod top;

use tantivy::schema::Value as _;
use tantivy::{DocAddress, DocId, TantivyDocument};

use super::score::{Bonuses, freshness, highest, idf, score, words_score};
use super::segment::{IndexView, SegmentView};
use super::tokens::{normalised, query_tokens};
use super::{Found, Hit, IndexQuery, Rank};
use explain::explain;
use filter::{NameMatches, SegmentFilter};
pub(super) use filter::{hidden_numbers, is_hidden};
pub(super) use matches::Matches;
use top::{Candidate, StartAfter, TopCandidates};

/// A question, as it is compared with documents.
pub(super) struct Question {
    tokens: Vec<String>,
    /// In the form of an AID.
    aid: String,
    /// In the form of a name.
    name: String,
    /// How many of its words a document must have.
    needed: usize,
    tags: Vec<String>,
}

/// How many documents have each word of a question, and what it is worth.
struct WordCounts {
    documents: Vec<u64>,
    idfs: Vec<f64>,
}

/// A document that is among the best, of this segment.
struct RankedDocument {
    rank: Rank,
    segment: usize,
    doc: DocId,
    bonuses: Bonuses,
}

impl Question {
    pub(super) fn new(query: &IndexQuery) -> Question {
        let tokens = query_tokens(&query.q);
        // At least one, and at least three of five.
        let needed = (tokens.len() * 3).div_ceil(5).max(1);
        let tags = query.tags.iter().map(|tag| tag.to_lowercase()).collect();
        Question { tokens, aid: query.q.trim().to_lowercase(), name: normalised(&query.q), needed, tags }
    }

    /// Every document that passes the filters is an answer.
    fn asks_for_all(&self) -> bool {
        self.name.is_empty()
    }
}

pub(super) fn find(
    view: &IndexView,
    matches: &mut Matches,
    question: &Question,
    query: &IndexQuery,
    after: Option<&Rank>,
    limit: usize,
) -> anyhow::Result<Found> {
    matches.begin(view.bits, question.tokens.len());
    let counts = if question.asks_for_all() {
        matches.add_all(view, &question.tags)?;
        WordCounts { documents: Vec::new(), idfs: Vec::new() }
    } else {
        let documents = matches.add_words(view, &question.tokens)?;
        let idfs = documents.iter().map(|having| idf(view.documents, *having)).collect();
        WordCounts { documents, idfs }
    };

    // One more than asked for tells whether there are more.
    let (mut best, keep): (Vec<RankedDocument>, usize) = (Vec::new(), limit + 1);
    for (number, segment) in view.segments.iter().enumerate() {
        let lowest = if best.len() == keep { best[limit].rank.score } else { f64::NEG_INFINITY };
        let top = TopCandidates::new(keep, lowest);
        for candidate in of_segment(segment, matches, question, query, &counts, after, top)? {
            let Candidate { score, updated_at, aid_number, doc, bonuses } = candidate;
            let rank = Rank { score, updated_at, aid: segment.aid_at(aid_number)? };
            best.push(RankedDocument { rank, segment: number, doc, bonuses });
        }
        best.sort_unstable_by(|a, b| a.rank.cmp(&b.rank));
        best.truncate(keep);
    }
    let more = best.len() > limit;
    best.truncate(limit);
    let hits = best.into_iter().map(|document| hit(view, question, query, &counts, document));
    Ok(Found { hits: hits.collect::<anyhow::Result<_>>()?, more })
}

/// The best of one segment. Takes its rows out of the table in any case.
fn of_segment(
    segment: &SegmentView,
    matches: &mut Matches,
    question: &Question,
    query: &IndexQuery,
    counts: &WordCounts,
    after: Option<&Rank>,
    mut top: TopCandidates,
) -> anyhow::Result<Vec<Candidate>> {
    let after = after.map(|rank| StartAfter::new(segment, rank)).transpose()?;
    let names = NameMatches::new(segment, question)?;
    if let Some(doc) = names.exact_aid {
        matches.mark(segment, doc);
    }
    let Some(filter) = SegmentFilter::new(segment, question, query)? else {
        matches.take(segment, |_, _| {});
        return Ok(Vec::new());
    };
    let asks_for_all = question.asks_for_all();
    matches.take(segment, |doc, weights| {
        let bonuses = names.bonuses(segment, doc);
        let present = weights.iter().filter(|weight| **weight > 0).count();
        if present < question.needed && !bonuses.exact_aid && !asks_for_all {
            return;
        }
        let words = words_score(bonuses, &counts.idfs, weights);
        if highest(words) < top.lowest() || !filter.passes(segment, doc) {
            return;
        }
        let updated_at = segment.updated_at(doc);
        let score = score(words, segment.is_signed(doc), freshness(query.now_ms, updated_at));
        let candidate = Candidate { score, updated_at, aid_number: segment.aid_number(doc), doc, bonuses };
        if after.as_ref().is_none_or(|after| after.is_before(&candidate)) {
            top.offer(candidate);
        }
    });
    Ok(top.into_candidates())
}

fn hit(
    view: &IndexView,
    question: &Question,
    query: &IndexQuery,
    counts: &WordCounts,
    document: RankedDocument,
) -> anyhow::Result<Hit> {
    let address = DocAddress::new(document.segment as u32, document.doc);
    let stored: TantivyDocument = view.searcher.doc(address)?;
    let fields = &view.fields;
    let all = |field| stored.get_all(field).filter_map(|value| value.as_str()).map(str::to_owned);
    let text = |field| all(field).next().unwrap_or_default();
    let segment = &view.segments[document.segment];
    let explanation =
        query.explain.then(|| explain(segment, &document, question, counts, query.now_ms)).transpose()?;
    let [name, _, _, description, _] = fields.texts;
    Ok(Hit {
        name: text(name),
        kind: text(fields.kind),
        description: text(description),
        tags: all(fields.tag).collect(),
        signed: segment.is_signed(document.doc),
        source_ap: text(fields.source_ap),
        explanation,
        rank: document.rank,
    })
}
