//! Words of the documents that may be meant by a word that none of them has.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::LazyLock;

use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder, SINK_STATE};
use tantivy::index::InvertedIndexReader;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption::Basic;
use tantivy::termdict::TermStreamer;
use tantivy_fst::Automaton;

use super::super::segment::{IndexView, SegmentView, end_of_prefix};
use super::super::words::{
    BEGUN, BY_SPELLING, EDITED, Form, FoundBy, MOST_SPELLINGS, STEM, WORD, spellings, term,
};

/// How many terms of one text of one segment are looked at.
const MOST_LOOKED_AT: usize = 1024;

/// One edit, where two adjacent characters that are swapped are one.
static EDITS: LazyLock<LevenshteinAutomatonBuilder> =
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, true));

/// Terms that may be meant: the first in their order, each once. Only what a document has counts, so that it does not matter how an index
/// came to be.
#[derive(Default)]
struct NearTerms(BTreeSet<String>);

/// The terms of one text of one segment.
#[derive(Clone, Copy)]
struct TextTerms<'a> {
    segment: &'a SegmentView,
    terms: &'a InvertedIndexReader,
}

pub(super) fn forms(view: &IndexView, word: &str) -> anyhow::Result<Vec<Form>> {
    let mut found = NearTerms::default();
    for spelling in spellings(word) {
        let length = spelling.chars().count();
        let edits = (length >= EDITED).then(|| EDITS.build_dfa(&spelling));
        for segment in &view.segments {
            for terms in &segment.texts {
                let text = TextTerms { segment, terms };
                if length >= BEGUN {
                    found.add_begun(text, &spelling)?;
                }
                if let Some(edits) = &edits {
                    found.add_all(text, terms.terms().search(&EditedTerm { edits }).into_stream()?)?;
                }
            }
        }
    }
    let form = |term| Form { term, strength: BY_SPELLING, by: FoundBy::Spelling };
    Ok(found.0.into_iter().map(form).collect())
}

impl NearTerms {
    /// Those that begin with a word, and those that it begins with.
    fn add_begun(&mut self, text: TextTerms<'_>, word: &str) -> anyhow::Result<()> {
        for kind in [WORD, STEM] {
            let prefix = term(kind, word);
            let range = text.terms.terms().range().ge(&prefix);
            let longer = match end_of_prefix(&prefix) {
                Bound::Excluded(end) => range.lt(end).into_stream()?,
                _ => range.into_stream()?,
            };
            self.add_all(text, longer)?;
            for (end, _) in word.char_indices().skip(BEGUN) {
                let shorter = term(kind, &word[..end]);
                if let Some(info) = text.terms.terms().get(&shorter)? {
                    self.add(text, &shorter, &info)?;
                }
            }
        }
        Ok(())
    }

    fn add_all<A>(&mut self, text: TextTerms<'_>, mut stream: TermStreamer<'_, A>) -> anyhow::Result<()>
    where
        A: Automaton,
        A::State: Clone,
    {
        let mut looked_at = 0;
        while looked_at < MOST_LOOKED_AT && stream.advance() {
            looked_at += 1;
            let term = std::str::from_utf8(stream.key())?;
            if !self.wants(term) {
                break;
            }
            self.add(text, term, stream.value())?;
        }
        Ok(())
    }

    fn wants(&self, term: &str) -> bool {
        self.0.len() < MOST_SPELLINGS || self.0.last().is_none_or(|last| term < last.as_str())
    }

    fn add(&mut self, text: TextTerms<'_>, term: &str, info: &TermInfo) -> anyhow::Result<()> {
        if self.wants(term) && !self.0.contains(term) && text.is_in_a_document(info)? {
            self.0.insert(term.to_owned());
            if self.0.len() > MOST_SPELLINGS {
                self.0.pop_last();
            }
        }
        Ok(())
    }
}

impl TextTerms<'_> {
    /// Whether a document that is alive has the term.
    fn is_in_a_document(self, info: &TermInfo) -> anyhow::Result<bool> {
        if !self.segment.has_deletes() {
            return Ok(true);
        }
        let mut postings = self.terms.read_block_postings_from_terminfo(info, Basic)?;
        while !postings.docs().is_empty() {
            if postings.docs().iter().any(|doc| self.segment.is_alive(*doc)) {
                return Ok(true);
            }
            postings.advance();
        }
        Ok(false)
    }
}

/// Words and stems that are at most one edit away.
struct EditedTerm<'a> {
    edits: &'a DFA,
}

impl Automaton for &EditedTerm<'_> {
    /// None before the character of the kind.
    type State = Option<u32>;

    fn start(&self) -> Option<u32> {
        None
    }

    fn is_match(&self, state: &Option<u32>) -> bool {
        state.is_some_and(|state| matches!(self.edits.distance(state), Distance::Exact(_)))
    }

    fn can_match(&self, state: &Option<u32>) -> bool {
        *state != Some(SINK_STATE)
    }

    fn accept(&self, state: &Option<u32>, byte: u8) -> Option<u32> {
        Some(match state {
            None if [WORD, STEM].contains(&char::from(byte)) => self.edits.initial_state(),
            None => SINK_STATE,
            Some(state) => self.edits.transition(*state, byte),
        })
    }
}
