//! Units of which a text has a share: so many of their pairs or of their characters.

use tantivy::DocId;
use tantivy::index::InvertedIndexReader;
use tantivy::schema::IndexRecordOption::WithFreqs;

use super::super::segment::{SegmentView, for_each_count};
use super::super::words::{Form, FoundBy, Unit};

/// How strongly a text has a unit of which it has every pair, in hundredths.
const BY_PAIRS: u8 = 70;
/// How strongly a text has a unit of which it has every character, in hundredths.
const BY_CHARS: u8 = 20;

/// Counts parts. It is empty between two uses.
#[derive(Default)]
pub(super) struct Shares {
    counts: Vec<PartCount>,
    touched: Vec<DocId>,
}

#[derive(Clone, Copy, Default)]
struct PartCount {
    /// How many of the parts a document has.
    parts: u8,
    /// How often it has the one that it has least.
    least: u8,
}

/// Documents that have the same share, and how often they have it.
pub(super) struct Share {
    pub(super) strength: u8,
    pub(super) documents: Vec<(DocId, u32)>,
}

/// A unit with one pair, or of one character, has all of it or nothing: that is a form as any other.
pub(super) fn single_parts(unit: &Unit) -> Vec<Form> {
    let mut forms = Vec::new();
    for (parts, strength, by) in kinds(unit) {
        if let [part] = parts {
            forms.push(Form { term: part.clone(), strength, by });
        }
    }
    forms
}

/// The parts of a unit, and how strongly all of them count.
pub(super) fn kinds(unit: &Unit) -> [(&[String], u8, FoundBy); 2] {
    [(&unit.pairs, BY_PAIRS, FoundBy::Pairs), (&unit.chars, BY_CHARS, FoundBy::Chars)]
}

/// Rounded to the nearest hundredth.
pub(super) fn share_of(whole: u8, have: usize, of: usize) -> u8 {
    ((usize::from(whole) * have * 2 + of) / (of * 2)) as u8
}

impl Shares {
    /// Those of one text, the largest first.
    pub(super) fn of(
        &mut self,
        segment: &SegmentView,
        terms: &InvertedIndexReader,
        unit: &Unit,
    ) -> anyhow::Result<Vec<Share>> {
        let mut shares = Vec::new();
        for (parts, whole, _) in kinds(unit) {
            if parts.len() > 1 {
                self.count(segment, terms, parts)?;
                self.take(parts.len(), whole, &mut shares);
            }
        }
        shares.sort_by_key(|share| std::cmp::Reverse(share.strength));
        Ok(shares)
    }

    fn count(
        &mut self,
        segment: &SegmentView,
        terms: &InvertedIndexReader,
        parts: &[String],
    ) -> anyhow::Result<()> {
        let documents = segment.max_doc() as usize;
        if self.counts.len() < documents {
            self.counts.resize(documents, PartCount::default());
        }
        for part in parts {
            let Some(postings) = segment.postings(terms, part, WithFreqs)? else { continue };
            for_each_count(postings, |doc, occurrences| {
                if !segment.is_alive(doc) {
                    return;
                }
                let (count, occurrences) = (&mut self.counts[doc as usize], occurrences.min(255) as u8);
                if count.parts == 0 {
                    self.touched.push(doc);
                    count.least = occurrences;
                }
                count.parts += 1;
                count.least = count.least.min(occurrences);
            });
        }
        Ok(())
    }

    fn take(&mut self, of: usize, whole: u8, shares: &mut Vec<Share>) {
        let first = shares.len();
        shares.extend(
            (1..=of).map(|have| Share { strength: share_of(whole, have, of), documents: Vec::new() }),
        );
        for doc in self.touched.drain(..) {
            let PartCount { parts, least } = std::mem::take(&mut self.counts[doc as usize]);
            shares[first + usize::from(parts) - 1].documents.push((doc, u32::from(least)));
        }
        shares.retain(|share| !share.documents.is_empty());
    }
}
