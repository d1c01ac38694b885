//! Queries: which documents have the units of a question, which of them pass the filters, and the best of those.
//!
//! First the postings of everything that stands for a unit are read, in all segments, into a table with a cell for each unit of each
//! document. How many documents have a unit is known only then, and with it what the unit is worth. Then each document in the table is
//! scored, and the best are kept. Only those are read from the store.

mod explain;
mod filter;
mod matches;
mod shares;
mod spelling;
mod top;

use tantivy::schema::Value as _;
use tantivy::{DocAddress, DocId, TantivyDocument};

use super::score::{Bonuses, UnitIdfs, freshness, highest, idf, score, words_score};
use super::segment::{IndexView, SegmentView};
use super::words::{MOST_MISSPELT, Unit, normalised, units};
use super::{Found, Hit, IndexQuery, Rank};
use explain::explain;
use filter::{NameMatches, SegmentFilter};
pub(super) use filter::{hidden_numbers, is_hidden};
pub(super) use matches::Matches;
use matches::UnitCount;
use top::{Candidate, LeastScore, StartAfter, TopCandidates};

/// A question, as it is compared with documents.
pub(super) struct Question {
    units: Vec<Unit>,
    /// In the form of an AID.
    aid: String,
    /// In the form of a name.
    name: String,
    tags: Vec<String>,
}

/// How many documents have each unit of a question, and what it is worth.
#[derive(Default)]
struct UnitCounts {
    documents: Vec<u64>,
    idfs: UnitIdfs,
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
        let tags = query.tags.iter().map(|tag| tag.to_lowercase()).collect();
        Question {
            units: units(&query.q),
            aid: query.q.trim().to_lowercase(),
            name: normalised(&query.q),
            tags,
        }
    }

    /// Every document that passes the filters is an answer.
    fn asks_for_all(&self) -> bool {
        self.name.is_empty()
    }
}

pub(super) fn find(
    view: &IndexView,
    matches: &mut Matches,
    question: &mut Question,
    query: &IndexQuery,
    after: Option<&Rank>,
    limit: usize,
) -> anyhow::Result<Found> {
    matches.begin(view.bits, question.units.len());
    let counts = if question.asks_for_all() {
        matches.add_all(view, &question.tags)?;
        UnitCounts::default()
    } else {
        look_up(view, matches, &mut question.units)?
    };
    let question = &*question;

    // One more than asked for tells whether there are more.
    let (mut best, keep): (Vec<RankedDocument>, usize) = (Vec::new(), limit + 1);
    let mut least = LeastScore::new();
    for (number, segment) in view.segments.iter().enumerate() {
        let lowest = if best.len() == keep { best[limit].rank.score } else { f64::NEG_INFINITY };
        let top = TopCandidates::new(keep, lowest);
        for candidate in of_segment(segment, matches, question, query, &counts, after, (top, &mut least))? {
            let Candidate { score, updated_at, aid_number, doc, bonuses } = candidate;
            let rank = Rank { score, updated_at, aid: segment.aid_at(aid_number)? };
            best.push(RankedDocument { rank, segment: number, doc, bonuses });
        }
        best.sort_unstable_by(|a, b| a.rank.cmp(&b.rank));
        best.truncate(keep);
    }
    if !question.asks_for_all() {
        best.retain(|document| document.rank.score >= least.score());
    }
    let more = best.len() > limit;
    best.truncate(limit);
    let hits = best.into_iter().map(|document| hit(view, question, query, &counts, document));
    Ok(Found { hits: hits.collect::<anyhow::Result<_>>()?, more })
}

/// Puts what documents have of each unit into the table. A unit that none has may be misspelt.
fn look_up(view: &IndexView, matches: &mut Matches, units: &mut [Unit]) -> anyhow::Result<UnitCounts> {
    let (mut found, mut misspelt) = (Vec::with_capacity(units.len()), 0);
    for (column, unit) in units.iter_mut().enumerate() {
        let mut count: UnitCount = matches.add_unit(view, column, unit)?;
        if !count.found && unit.spelt && misspelt < MOST_MISSPELT {
            misspelt += 1;
            let forms = spelling::forms(view, &unit.text)?;
            count = matches.add_forms(view, column, &forms)?;
            unit.forms.extend(forms);
        }
        found.push(count);
    }
    // A word that nobody has tells no two documents apart.
    let rarity = |count: &UnitCount| if count.found { idf(view.documents, count.documents) } else { 0.0 };
    let idfs = UnitIdfs::new(found.iter().map(rarity).collect());
    Ok(UnitCounts { documents: found.iter().map(|count| count.documents).collect(), idfs })
}

/// The best of one segment. Takes its rows out of the table in any case.
fn of_segment(
    segment: &SegmentView,
    matches: &mut Matches,
    question: &Question,
    query: &IndexQuery,
    counts: &UnitCounts,
    after: Option<&Rank>,
    (mut top, least): (TopCandidates, &mut LeastScore),
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
    matches.take(segment, |doc, found| {
        let bonuses = names.bonuses(segment, doc);
        let words = words_score(bonuses, &counts.idfs, found);
        let highest = highest(words);
        if (highest < top.lowest() && least.is_above(highest)) || !filter.passes(segment, doc) {
            return;
        }
        let updated_at = segment.updated_at(doc);
        let score = score(words, segment.is_signed(doc), freshness(query.now_ms, updated_at));
        least.offer(score);
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
    counts: &UnitCounts,
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
    Ok(Hit {
        name: text(fields.shown_name),
        kind: text(fields.kind),
        description: text(fields.shown_description),
        tags: all(fields.tag).collect(),
        signed: segment.is_signed(document.doc),
        source_ap: text(fields.source_ap),
        explanation,
        rank: document.rank,
    })
}
