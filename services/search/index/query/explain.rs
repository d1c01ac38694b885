//! How a score came about. The counts are read again from the postings: only few documents are explained.

use tantivy::index::InvertedIndexReader;
use tantivy::postings::Postings as _;
use tantivy::schema::IndexRecordOption::WithFreqs;
use tantivy::{DocId, DocSet as _};

use super::super::score::{SATURATION, TEXT_WEIGHTS, UnitMatch, freshness, signed_part};
use super::super::segment::SegmentView;
use super::super::words::{FoundBy, Unit};
use super::super::{Explanation, TEXTS, UnitFound, UnitScore};
use super::shares::{kinds, share_of};
use super::{Question, RankedDocument, UnitCounts};

/// How a text has a unit.
struct Strength {
    strength: u8,
    by: FoundBy,
    term: Option<String>,
    occurrences: u32,
}

pub(super) fn explain(
    segment: &SegmentView,
    document: &RankedDocument,
    question: &Question,
    counts: &UnitCounts,
    now_ms: i64,
) -> anyhow::Result<Explanation> {
    let (mut units, mut matches) = (Vec::new(), Vec::new());
    for (number, unit) in question.units.iter().enumerate() {
        let (mut found, mut unit_match) = (Vec::new(), UnitMatch::default());
        for (text, terms) in segment.texts.iter().enumerate() {
            let Some(strength) = strongest(terms, unit, document.doc)? else { continue };
            let occurrences = strength.occurrences.min(SATURATION);
            unit_match.sum += TEXT_WEIGHTS[text] * u16::from(strength.strength) * occurrences as u16;
            unit_match.strongest = unit_match.strongest.max(strength.strength);
            found.push(UnitFound {
                text: TEXTS[text],
                word: strength
                    .term
                    .map(|term| term.chars().skip(1).collect())
                    .filter(|word| *word != unit.text),
                by: strength.by.name(),
                strength: f64::from(strength.strength) / 100.0,
                occurrences,
            });
        }
        let idf = counts.idfs.each[number];
        let (unit, documents) = (unit.text.clone(), counts.documents[number]);
        units.push(UnitScore { unit, documents, idf, score: unit_match.score(idf), found });
        matches.push(unit_match);
    }
    let [exact_aid, name_equals, name_prefix] = document.bonuses.parts();
    Ok(Explanation {
        exact_aid,
        name_equals,
        name_prefix,
        words: counts.idfs.units_part(&matches),
        signed: signed_part(segment.is_signed(document.doc)),
        freshness: freshness(now_ms, document.rank.updated_at),
        coverage: counts.idfs.coverage(&matches),
        units,
    })
}

/// The strongest of everything by which a text has a unit; the first of several.
fn strongest(terms: &InvertedIndexReader, unit: &Unit, doc: DocId) -> anyhow::Result<Option<Strength>> {
    let mut best: Option<Strength> = None;
    for form in &unit.forms {
        let occurrences = occurrences(terms, &form.term, doc)?;
        if occurrences > 0 {
            let term = Some(form.term.clone());
            best = Some(Strength { strength: form.strength, by: form.by, term, occurrences });
            break;
        }
    }
    for (parts, whole, by) in kinds(unit) {
        let mut counts = Vec::new();
        for part in parts {
            counts.extend(Some(occurrences(terms, part, doc)?).filter(|count| *count > 0));
        }
        let Some(least) = counts.iter().min() else { continue };
        let strength = share_of(whole, counts.len(), parts.len());
        if best.as_ref().is_none_or(|best| strength > best.strength) {
            best = Some(Strength { strength, by, term: None, occurrences: *least });
        }
    }
    Ok(best)
}

/// How often a text of a document has a term.
fn occurrences(terms: &InvertedIndexReader, term: &str, doc: DocId) -> anyhow::Result<u32> {
    let Some(info) = terms.terms().get(term)? else { return Ok(0) };
    let mut postings = terms.read_postings_from_terminfo(&info, WithFreqs)?;
    if postings.doc() < doc {
        postings.seek(doc);
    }
    Ok(if postings.doc() == doc { postings.term_freq() } else { 0 })
}

impl FoundBy {
    fn name(self) -> &'static str {
        match self {
            FoundBy::Written => "written",
            FoundBy::Stem => "stem",
            FoundBy::Synonym => "synonym",
            FoundBy::Spelling => "spelling",
            FoundBy::Pairs => "pairs",
            FoundBy::Chars => "characters",
        }
    }
}
