//! What queries read: the segments of one commit, with their term dictionaries and columns open.

use std::ops::{Bound, Range};
use std::sync::Arc;

use anyhow::Context as _;
use tantivy::columnar::{BytesColumn, Column, StrColumn};
use tantivy::index::InvertedIndexReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, Searcher, SegmentReader};

use super::fields::IndexFields;

/// All documents of one commit.
pub(super) struct IndexView {
    pub(super) segments: Vec<SegmentView>,
    pub(super) searcher: Searcher,
    pub(super) fields: IndexFields,
    /// Those that are alive.
    pub(super) documents: u64,
    /// How many bits are needed for one in each document, deleted ones included.
    pub(super) bits: usize,
    pub(super) generation: i64,
}

pub(super) struct SegmentView {
    reader: SegmentReader,
    /// In the order of the weights.
    pub(super) texts: [Arc<InvertedIndexReader>; 6],
    pub(super) aids: Arc<InvertedIndexReader>,
    pub(super) names: Arc<InvertedIndexReader>,
    pub(super) tags: Arc<InvertedIndexReader>,
    pub(super) aid: StrColumn,
    pub(super) name: StrColumn,
    pub(super) tag: StrColumn,
    pub(super) kind: StrColumn,
    pub(super) issuer: StrColumn,
    pub(super) source_ap: StrColumn,
    updated_at: Column<i64>,
    signed: Column<bool>,
    /// The bit of its first document, the first of a word.
    pub(super) first_bit: usize,
}

impl IndexView {
    pub(super) fn open(searcher: Searcher, generation: i64) -> anyhow::Result<IndexView> {
        let (_, fields) = IndexFields::new();
        let (mut segments, mut bits) = (Vec::new(), 0);
        for reader in searcher.segment_readers() {
            segments.push(SegmentView::open(reader, &fields, bits)?);
            bits += (reader.max_doc() as usize).next_multiple_of(64);
        }
        let documents = searcher.num_docs();
        Ok(IndexView { segments, searcher, fields, documents, bits, generation })
    }
}

impl SegmentView {
    fn open(reader: &SegmentReader, fields: &IndexFields, first_bit: usize) -> anyhow::Result<SegmentView> {
        let columns = reader.fast_fields();
        let strings = |name: &str| -> anyhow::Result<StrColumn> {
            let empty = || StrColumn::wrap(BytesColumn::empty(reader.max_doc()));
            Ok(columns.str(name)?.unwrap_or_else(empty))
        };
        let [name, tags, skills, kind, description, body] =
            fields.texts.map(|field| reader.inverted_index(field));
        Ok(SegmentView {
            texts: [name?, tags?, skills?, kind?, description?, body?],
            aids: reader.inverted_index(fields.aid)?,
            names: reader.inverted_index(fields.name_exact)?,
            tags: reader.inverted_index(fields.tag)?,
            aid: strings("aid")?,
            name: strings("name_exact")?,
            tag: strings("tag")?,
            kind: strings("kind")?,
            issuer: strings("issuer")?,
            source_ap: strings("source_ap")?,
            updated_at: columns.i64("updated_at")?,
            signed: columns.bool("signed")?,
            first_bit,
            reader: reader.clone(),
        })
    }

    /// The documents with a term and how often they have it, deleted ones included; none without the term.
    pub(super) fn postings(
        &self,
        terms: &InvertedIndexReader,
        term: &str,
        option: IndexRecordOption,
    ) -> anyhow::Result<Option<BlockSegmentPostings>> {
        let Some(info) = terms.terms().get(term)? else { return Ok(None) };
        Ok(Some(terms.read_block_postings_from_terminfo(&info, option)?))
    }

    pub(super) fn max_doc(&self) -> DocId {
        self.reader.max_doc()
    }

    pub(super) fn has_deletes(&self) -> bool {
        self.reader.has_deletes()
    }

    pub(super) fn is_alive(&self, doc: DocId) -> bool {
        self.reader.alive_bitset().is_none_or(|alive| alive.is_alive(doc))
    }

    pub(super) fn updated_at(&self, doc: DocId) -> i64 {
        self.updated_at.first(doc).unwrap_or_default()
    }

    pub(super) fn is_signed(&self, doc: DocId) -> bool {
        self.signed.first(doc).unwrap_or_default()
    }

    /// The number of a document's AID among the AIDs of the segment, which are in order.
    pub(super) fn aid_number(&self, doc: DocId) -> u64 {
        self.aid.ords().first(doc).unwrap_or(u64::MAX)
    }

    pub(super) fn aid_at(&self, number: u64) -> anyhow::Result<String> {
        let mut aid = String::new();
        let found = self.aid.ord_to_str(number, &mut aid)?;
        found.then_some(aid).context("a document of the index has no AID")
    }
}

/// The numbers of all texts of a column that begin with a prefix.
pub(super) fn numbers_with_prefix(column: &StrColumn, prefix: &str) -> anyhow::Result<Range<u64>> {
    let begin = Bound::Included(prefix.as_bytes().to_vec());
    let (first, end) = column.dictionary().term_bounds_to_ord(begin, end_of_prefix(prefix))?;
    let end = match end {
        Bound::Excluded(number) => number,
        Bound::Included(number) => number + 1,
        Bound::Unbounded => u64::MAX,
    };
    Ok(start(first)..end)
}

/// The number of the first text of a column that comes after this one.
pub(super) fn first_number_after(column: &StrColumn, text: &str) -> anyhow::Result<u64> {
    let (first, _) =
        column.dictionary().term_bounds_to_ord(Bound::Excluded(text.as_bytes()), Bound::Unbounded)?;
    Ok(start(first))
}

fn start(bound: Bound<u64>) -> u64 {
    match bound {
        Bound::Included(number) => number,
        Bound::Excluded(number) => number.saturating_add(1),
        Bound::Unbounded => 0,
    }
}

/// The first bytes that no text with this prefix begins with. No byte of UTF-8 is the highest one.
pub(super) fn end_of_prefix(prefix: &str) -> Bound<Vec<u8>> {
    let mut end = prefix.as_bytes().to_vec();
    match end.last_mut() {
        None => Bound::Unbounded,
        Some(last) => {
            *last += 1;
            Bound::Excluded(end)
        }
    }
}

/// Every document of a posting list that was opened with counts, and its count.
#[inline]
pub(super) fn for_each_count(mut postings: BlockSegmentPostings, mut with: impl FnMut(DocId, u32)) {
    while !postings.docs().is_empty() {
        for (doc, count) in postings.docs().iter().zip(postings.freqs()) {
            with(*doc, *count);
        }
        postings.advance();
    }
}

/// Every document of a posting list.
pub(super) fn for_each_doc(mut postings: BlockSegmentPostings, mut with: impl FnMut(DocId)) {
    while !postings.docs().is_empty() {
        postings.docs().iter().for_each(|doc| with(*doc));
        postings.advance();
    }
}
