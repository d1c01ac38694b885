//! What a question says about documents besides their words, in the numbers of one segment.

use std::ops::Range;

use tantivy::DocId;
use tantivy::columnar::StrColumn;
use tantivy::schema::IndexRecordOption::Basic;

use super::super::IndexQuery;
use super::super::score::Bonuses;
use super::super::segment::{SegmentView, for_each_doc, numbers_with_prefix};
use super::Question;

/// The filters of a query.
pub(super) struct SegmentFilter {
    tags: Vec<u64>,
    kind: Option<u64>,
    issuer: Option<u64>,
    signed: Option<bool>,
    hidden: Vec<u64>,
}

impl SegmentFilter {
    /// None if no document of the segment can pass.
    pub(super) fn new(
        segment: &SegmentView,
        question: &Question,
        query: &IndexQuery,
    ) -> anyhow::Result<Option<SegmentFilter>> {
        let mut tags = Vec::with_capacity(question.tags.len());
        for tag in &question.tags {
            let Some(number) = number(&segment.tag, tag)? else { return Ok(None) };
            tags.push(number);
        }
        let Some(kind) = wanted(&segment.kind, query.kind.as_deref())? else { return Ok(None) };
        let Some(issuer) = wanted(&segment.issuer, query.issuer.as_deref())? else { return Ok(None) };
        let hidden = hidden_numbers(segment, &query.hidden)?;
        Ok(Some(SegmentFilter { tags, kind, issuer, signed: query.signed, hidden }))
    }

    pub(super) fn passes(&self, segment: &SegmentView, doc: DocId) -> bool {
        let is = |column: &StrColumn, wanted: Option<u64>| {
            wanted.is_none_or(|wanted| column.ords().first(doc) == Some(wanted))
        };
        self.signed.is_none_or(|signed| segment.is_signed(doc) == signed)
            && is(&segment.kind, self.kind)
            && is(&segment.issuer, self.issuer)
            && self.tags.iter().all(|wanted| segment.tag.term_ords(doc).any(|tag| tag == *wanted))
            && !is_hidden(segment, &self.hidden, doc)
    }
}

/// Sources whose documents are not shown, as numbers of a segment.
pub(in super::super) fn hidden_numbers<'a>(
    segment: &SegmentView,
    hidden: impl IntoIterator<Item = &'a String>,
) -> anyhow::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for source in hidden {
        numbers.extend(number(&segment.source_ap, source)?);
    }
    Ok(numbers)
}

pub(in super::super) fn is_hidden(segment: &SegmentView, hidden: &[u64], doc: DocId) -> bool {
    !hidden.is_empty() && segment.source_ap.ords().first(doc).is_some_and(|source| hidden.contains(&source))
}

/// The outer option is none if the wanted text is not in the column.
fn wanted(column: &StrColumn, text: Option<&str>) -> anyhow::Result<Option<Option<u64>>> {
    Ok(match text {
        None => Some(None),
        Some(text) => number(column, text)?.map(Some),
    })
}

fn number(column: &StrColumn, text: &str) -> anyhow::Result<Option<u64>> {
    Ok(column.dictionary().term_ord(text)?)
}

/// Which documents a question names.
pub(super) struct NameMatches {
    pub(super) exact_aid: Option<DocId>,
    /// The number of the name that is the question.
    equal: Option<u64>,
    /// The numbers of the names that begin with it.
    prefixed: Range<u64>,
}

impl NameMatches {
    pub(super) fn new(segment: &SegmentView, question: &Question) -> anyhow::Result<NameMatches> {
        let mut exact_aid = None;
        if question.asks_for_all() {
            return Ok(NameMatches { exact_aid, equal: None, prefixed: 0..0 });
        }
        if let Some(postings) = segment.postings(&segment.aids, &question.aid, Basic)? {
            for_each_doc(postings, |doc| {
                if segment.is_alive(doc) {
                    exact_aid = Some(doc);
                }
            });
        }
        let equal = number(&segment.name, &question.name)?;
        Ok(NameMatches { exact_aid, equal, prefixed: numbers_with_prefix(&segment.name, &question.name)? })
    }

    pub(super) fn bonuses(&self, segment: &SegmentView, doc: DocId) -> Bonuses {
        let exact_aid = self.exact_aid == Some(doc);
        // No name of the segment begins with most questions, and then no name has to be looked at.
        if self.prefixed.is_empty() {
            return Bonuses { exact_aid, ..Bonuses::default() };
        }
        let name = segment.name.ords().first(doc);
        Bonuses {
            exact_aid,
            name_equals: name.is_some() && name == self.equal,
            name_prefix: name.is_some_and(|name| self.prefixed.contains(&name)),
        }
    }
}
