//! Suggestions: what begins with a prefix, straight from the term dictionaries, which are in order.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use tantivy::DocId;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption::Basic;

use super::query::{hidden_numbers, is_hidden};
use super::segment::{IndexView, SegmentView, end_of_prefix, for_each_doc};

/// A segment, and which of its documents are shown.
struct ShownDocuments<'a> {
    segment: &'a SegmentView,
    hidden: Vec<u64>,
}

pub(super) fn agents(
    view: &IndexView,
    prefix: &str,
    hidden: &HashSet<String>,
    limit: usize,
) -> anyhow::Result<Vec<String>> {
    let shown = ShownDocuments::of(view, hidden)?;
    // The first of all segments are among the first of each.
    let mut found = Vec::new();
    for documents in &shown {
        found.extend(documents.aids(prefix, limit)?);
    }
    found.sort_unstable();
    found.truncate(limit);

    let mut named = Vec::new();
    let wanted = limit - found.len();
    for documents in shown.iter().filter(|_| wanted > 0) {
        named.extend(documents.named(prefix, wanted)?);
    }
    named.sort_unstable();
    found.extend(named.into_iter().take(wanted).map(|(_, aid)| aid));
    Ok(found)
}

pub(super) fn tags(
    view: &IndexView,
    prefix: &str,
    hidden: &HashSet<String>,
    limit: usize,
) -> anyhow::Result<Vec<(String, u64)>> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for documents in ShownDocuments::of(view, hidden)? {
        let terms = &documents.segment.tags;
        each_term(terms, prefix, |tag, info| {
            let count = documents.count(terms, info)?;
            if count > 0 {
                *counts.entry(tag.to_owned()).or_default() += count;
            }
            Ok(true)
        })?;
    }
    let mut found: Vec<(String, u64)> = counts.into_iter().collect();
    found.sort_unstable_by(|(a, most_a), (b, most_b)| most_b.cmp(most_a).then_with(|| a.cmp(b)));
    found.truncate(limit);
    Ok(found)
}

impl<'a> ShownDocuments<'a> {
    fn of(view: &'a IndexView, hidden: &HashSet<String>) -> anyhow::Result<Vec<Self>> {
        let shown = view
            .segments
            .iter()
            .map(|segment| Ok(Self { segment, hidden: hidden_numbers(segment, hidden)? }));
        shown.collect()
    }

    fn contain(&self, doc: DocId) -> bool {
        self.segment.is_alive(doc) && !is_hidden(self.segment, &self.hidden, doc)
    }

    fn count(&self, terms: &InvertedIndexReader, info: &TermInfo) -> anyhow::Result<u64> {
        if !self.segment.has_deletes() && self.hidden.is_empty() {
            return Ok(u64::from(info.doc_freq));
        }
        let mut count = 0;
        let postings = terms.read_block_postings_from_terminfo(info, Basic)?;
        for_each_doc(postings, |doc| count += u64::from(self.contain(doc)));
        Ok(count)
    }

    /// The first AIDs that begin with a prefix.
    fn aids(&self, prefix: &str, limit: usize) -> anyhow::Result<Vec<String>> {
        let (terms, mut found) = (&self.segment.aids, Vec::new());
        each_term(terms, prefix, |aid, info| {
            if found.len() < limit && self.count(terms, info)? > 0 {
                found.push(aid.to_owned());
            }
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    /// The first agents, by name and AID, whose name begins with a prefix and whose AID does not.
    fn named(&self, prefix: &str, limit: usize) -> anyhow::Result<Vec<(String, String)>> {
        let (terms, mut found) = (&self.segment.names, Vec::new());
        each_term(terms, prefix, |name, info| {
            let mut numbers = Vec::new();
            for_each_doc(terms.read_block_postings_from_terminfo(info, Basic)?, |doc| {
                if self.contain(doc) {
                    numbers.push(self.segment.aid_number(doc));
                }
            });
            numbers.sort_unstable();
            for number in numbers {
                let aid = self.segment.aid_at(number)?;
                if found.len() < limit && !aid.starts_with(prefix) {
                    found.push((name.to_owned(), aid));
                }
                if found.len() == limit {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(found)
    }
}

/// The terms of a dictionary that begin with a prefix, in order, as long as they are wanted.
fn each_term(
    terms: &InvertedIndexReader,
    prefix: &str,
    mut with: impl FnMut(&str, &TermInfo) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let range = terms.terms().range().ge(prefix);
    let mut stream = match end_of_prefix(prefix) {
        Bound::Excluded(end) => range.lt(end).into_stream()?,
        _ => range.into_stream()?,
    };
    while let Some((term, info)) = stream.next() {
        if !with(std::str::from_utf8(term)?, info)? {
            return Ok(());
        }
    }
    Ok(())
}
