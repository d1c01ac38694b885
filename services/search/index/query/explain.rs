//! How a score came about. The counts are read again from the postings: only few documents are explained.

use tantivy::postings::Postings as _;
use tantivy::schema::IndexRecordOption::WithFreqs;
use tantivy::{DocId, DocSet as _};

use super::super::score::{SATURATION, TEXT_WEIGHTS, freshness, signed_part};
use super::super::segment::SegmentView;
use super::super::{Explanation, TokenScore};
use super::{Question, RankedDocument, WordCounts};

pub(super) fn explain(
    segment: &SegmentView,
    document: &RankedDocument,
    question: &Question,
    counts: &WordCounts,
    now_ms: i64,
) -> anyhow::Result<Explanation> {
    let mut tokens = Vec::with_capacity(question.tokens.len());
    for (number, token) in question.tokens.iter().enumerate() {
        let occurrences = occurrences(segment, token, document.doc)?;
        let weights = occurrences.iter().zip(TEXT_WEIGHTS).map(|(count, weight)| count * u32::from(weight));
        let idf = counts.idfs[number];
        let score = idf * f64::from(weights.sum::<u32>());
        let [name, tags, skills, description, body] = occurrences;
        let (token, documents) = (token.clone(), counts.documents[number]);
        tokens.push(TokenScore { token, documents, idf, name, tags, skills, description, body, score });
    }
    let [exact_aid, name_equals, name_prefix] = document.bonuses.parts();
    Ok(Explanation {
        exact_aid,
        name_equals,
        name_prefix,
        tokens,
        signed: signed_part(segment.is_signed(document.doc)),
        freshness: freshness(now_ms, document.rank.updated_at),
    })
}

/// How often a word is in each text of a document.
fn occurrences(segment: &SegmentView, token: &str, doc: DocId) -> anyhow::Result<[u32; 5]> {
    let mut found = [0; 5];
    for (count, terms) in found.iter_mut().zip(&segment.texts) {
        let Some(info) = terms.terms().get(token)? else { continue };
        let mut postings = terms.read_postings_from_terminfo(&info, WithFreqs)?;
        if postings.doc() < doc {
            postings.seek(doc);
        }
        if postings.doc() == doc {
            *count = postings.term_freq().min(SATURATION);
        }
    }
    Ok(found)
}
