//! The table of a query: which documents have which words of the question.

use tantivy::DocId;
use tantivy::schema::IndexRecordOption::{Basic, WithFreqs};

use super::super::score::{SATURATION, TEXT_WEIGHTS};
use super::super::segment::{IndexView, SegmentView, for_each_count, for_each_doc};

/// Larger tables are not kept for the next query.
const KEPT_BYTES: usize = 8 << 20;

/// A row for each document of the index, with a byte for each word: the sum of the counts in its texts, weighted. Rows that
/// are not all zero have a bit, by which they are found again, and are zero again once taken out. So a table can be used
/// for many queries, and costs each of them what it puts in.
#[derive(Default)]
pub(in super::super) struct Matches {
    weights: Vec<u8>,
    width: usize,
    marked: Vec<u64>,
}

impl Matches {
    /// The table is empty; it only changes its form.
    pub(super) fn begin(&mut self, bits: usize, width: usize) {
        self.width = width;
        self.marked.resize(bits.div_ceil(64), 0);
        if self.weights.len() < bits * width {
            self.weights.resize(bits * width, 0);
        }
    }

    pub(in super::super) fn is_small(&self) -> bool {
        self.weights.capacity() <= KEPT_BYTES
    }

    /// Reads the postings of every word. Gives how many documents have each, counting only those that are alive.
    pub(super) fn add_words(&mut self, view: &IndexView, words: &[String]) -> anyhow::Result<Vec<u64>> {
        let mut documents = vec![0; words.len()];
        for segment in &view.segments {
            for (column, word) in words.iter().enumerate() {
                for (terms, weight) in segment.texts.iter().zip(TEXT_WEIGHTS) {
                    let Some(postings) = segment.postings(terms, word, WithFreqs)? else { continue };
                    let mut add = |doc: DocId, count: u32| {
                        let row = segment.first_bit + doc as usize;
                        let cell = &mut self.weights[row * self.width + column];
                        documents[column] += u64::from(*cell == 0);
                        *cell += weight * count.min(SATURATION) as u8;
                        self.marked[row / 64] |= 1 << (row % 64);
                    };
                    if segment.has_deletes() {
                        for_each_count(postings, |doc, count| {
                            if segment.is_alive(doc) {
                                add(doc, count);
                            }
                        });
                    } else {
                        for_each_count(postings, add);
                    }
                }
            }
        }
        Ok(documents)
    }

    /// All documents that are alive; only those with the rarest of the tags, if there are tags.
    pub(super) fn add_all(&mut self, view: &IndexView, tags: &[String]) -> anyhow::Result<()> {
        for segment in &view.segments {
            let mut rarest = None;
            for tag in tags {
                let having = segment.tags.terms().get(tag)?.map_or(0, |info| info.doc_freq);
                if rarest.is_none_or(|(least, _)| having < least) {
                    rarest = Some((having, tag));
                }
            }
            let mut mark = |doc| {
                if segment.is_alive(doc) {
                    self.mark(segment, doc);
                }
            };
            match rarest {
                None => (0..segment.max_doc()).for_each(mark),
                Some((_, tag)) => {
                    if let Some(postings) = segment.postings(&segment.tags, tag, Basic)? {
                        for_each_doc(postings, &mut mark);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a document whatever words it has.
    pub(super) fn mark(&mut self, segment: &SegmentView, doc: DocId) {
        let row = segment.first_bit + doc as usize;
        self.marked[row / 64] |= 1 << (row % 64);
    }

    /// Takes the rows of a segment out of the table, in order.
    pub(super) fn take(&mut self, segment: &SegmentView, mut with: impl FnMut(DocId, &[u8])) {
        let first_word = segment.first_bit / 64;
        let words = (segment.max_doc() as usize).div_ceil(64);
        for (number, word) in self.marked[first_word..first_word + words].iter_mut().enumerate() {
            let mut rest = std::mem::take(word);
            while rest != 0 {
                let doc = number * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let begin = (segment.first_bit + doc) * self.width;
                let row = &mut self.weights[begin..begin + self.width];
                with(doc as DocId, row);
                row.fill(0);
            }
        }
    }
}
