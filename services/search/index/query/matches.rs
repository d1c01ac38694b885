//! The table of a query: which documents have which units of the question, and how strongly.

use tantivy::DocId;
use tantivy::index::InvertedIndexReader;
use tantivy::schema::IndexRecordOption::{Basic, WithFreqs};

use super::super::score::{HAS, SATURATION, TEXT_WEIGHTS, UnitMatch};
use super::super::segment::{IndexView, SegmentView, for_each_count, for_each_doc};
use super::super::words::{Form, Unit};
use super::shares::{Shares, single_parts};

/// Larger tables are not kept for the next query.
const KEPT_BYTES: usize = 8 << 20;

/// A row for each document of the index, with a cell for each unit. Rows that are not all empty have a bit, by which they are found
/// again, and are empty again once taken out. So a table can be used for many queries, and costs each of them what it puts in.
#[derive(Default)]
pub(in super::super) struct Matches {
    cells: Vec<UnitMatch>,
    width: usize,
    marked: Vec<u64>,
    shares: Shares,
}

/// What was found of one unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnitCount {
    /// The documents that have it.
    pub(super) documents: u64,
    /// Whether any document has anything of it.
    pub(super) found: bool,
}

/// The cells of one unit, while one text of one segment is read.
struct TextCells<'a> {
    cells: &'a mut [UnitMatch],
    marked: &'a mut [u64],
    width: usize,
    column: usize,
    segment: &'a SegmentView,
    weight: u16,
    text: u8,
    count: &'a mut UnitCount,
}

impl Matches {
    /// The table is empty; it only changes its form.
    pub(super) fn begin(&mut self, bits: usize, width: usize) {
        self.width = width;
        self.marked.resize(bits.div_ceil(64), 0);
        if self.cells.len() < bits * width {
            self.cells.resize(bits * width, UnitMatch::default());
        }
    }

    pub(in super::super) fn is_small(&self) -> bool {
        self.cells.capacity() * size_of::<UnitMatch>() <= KEPT_BYTES
    }

    /// Reads the postings of everything that stands for a unit: its forms, its pairs and its characters.
    pub(super) fn add_unit(
        &mut self,
        view: &IndexView,
        column: usize,
        unit: &Unit,
    ) -> anyhow::Result<UnitCount> {
        let mut forms = unit.forms.clone();
        forms.extend(single_parts(unit));
        forms.sort_by_key(|form| std::cmp::Reverse(form.strength));
        let mut count = UnitCount::default();
        for segment in &view.segments {
            for text in 0..TEXT_WEIGHTS.len() {
                let terms = &segment.texts[text];
                let mut shares = self.shares.of(segment, terms, unit)?.into_iter().peekable();
                let mut cells = self.text_cells(segment, column, text, &mut count);
                for form in &forms {
                    while let Some(share) = shares.next_if(|share| share.strength > form.strength) {
                        cells.add_all(&share.documents, share.strength);
                    }
                    cells.add_form(terms, form)?;
                }
                shares.for_each(|share| cells.add_all(&share.documents, share.strength));
            }
        }
        Ok(count)
    }

    /// Reads the postings of more forms, for a unit of which nothing was found.
    pub(super) fn add_forms(
        &mut self,
        view: &IndexView,
        column: usize,
        forms: &[Form],
    ) -> anyhow::Result<UnitCount> {
        let mut count = UnitCount::default();
        for segment in &view.segments {
            for text in 0..TEXT_WEIGHTS.len() {
                let mut cells = self.text_cells(segment, column, text, &mut count);
                for form in forms {
                    cells.add_form(&segment.texts[text], form)?;
                }
            }
        }
        Ok(count)
    }

    fn text_cells<'a>(
        &'a mut self,
        segment: &'a SegmentView,
        column: usize,
        text: usize,
        count: &'a mut UnitCount,
    ) -> TextCells<'a> {
        let (weight, width) = (TEXT_WEIGHTS[text], self.width);
        let (cells, marked) = (&mut self.cells[..], &mut self.marked[..]);
        TextCells { cells, marked, width, column, segment, weight, text: text as u8 + 1, count }
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

    /// Adds a document whatever it has.
    pub(super) fn mark(&mut self, segment: &SegmentView, doc: DocId) {
        let row = segment.first_bit + doc as usize;
        self.marked[row / 64] |= 1 << (row % 64);
    }

    /// Takes the rows of a segment out of the table, in order.
    pub(super) fn take(&mut self, segment: &SegmentView, mut with: impl FnMut(DocId, &[UnitMatch])) {
        let first_word = segment.first_bit / 64;
        let words = (segment.max_doc() as usize).div_ceil(64);
        for (number, word) in self.marked[first_word..first_word + words].iter_mut().enumerate() {
            let mut rest = std::mem::take(word);
            while rest != 0 {
                let doc = number * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let begin = (segment.first_bit + doc) * self.width;
                let row = &mut self.cells[begin..begin + self.width];
                with(doc as DocId, row);
                row.fill(UnitMatch::default());
            }
        }
    }
}

impl TextCells<'_> {
    fn add_form(&mut self, terms: &InvertedIndexReader, form: &Form) -> anyhow::Result<()> {
        let Some(postings) = self.segment.postings(terms, &form.term, WithFreqs)? else { return Ok(()) };
        if self.segment.has_deletes() {
            for_each_count(postings, |doc, occurrences| {
                if self.segment.is_alive(doc) {
                    self.add(doc, occurrences, form.strength);
                }
            });
        } else {
            for_each_count(postings, |doc, occurrences| self.add(doc, occurrences, form.strength));
        }
        Ok(())
    }

    /// Of documents that are alive.
    fn add_all(&mut self, documents: &[(DocId, u32)], strength: u8) {
        for (doc, occurrences) in documents {
            self.add(*doc, *occurrences, strength);
        }
    }

    /// The strongest comes first; what the same text has besides adds nothing.
    #[inline]
    fn add(&mut self, doc: DocId, occurrences: u32, strength: u8) {
        let row = self.segment.first_bit + doc as usize;
        let cell = &mut self.cells[row * self.width + self.column];
        if cell.text == self.text {
            return;
        }
        cell.text = self.text;
        cell.sum += self.weight * u16::from(strength) * occurrences.min(SATURATION) as u16;
        if strength > cell.strongest {
            self.count.documents += u64::from(cell.strongest < HAS && strength >= HAS);
            cell.strongest = strength;
        }
        self.count.found = true;
        self.marked[row / 64] |= 1 << (row % 64);
    }
}
