//! The full-text index: it finds documents by their words, and ranks them.
//!
//! Tantivy keeps the postings and nothing else is asked of it. Scores are counted here, from the documents that are alive,
//! so that two instances with the same documents give the same scores, however their indexes came to be. An index is made
//! from a log: it knows up to which sequence of the log it is complete, and can be rebuilt at any time.
//!
//! Every method blocks. Nothing here knows the store, the protocol or the clock.

pub mod brute_force;
mod directory;
mod fields;
mod open;
pub mod plain_text;
mod query;
mod score;
mod segment;
mod suggest;
pub mod words;
mod writer;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use tantivy::IndexReader;

#[cfg(test)]
pub(crate) use fields::TOKENIZER;
use query::{Matches, Question};
use segment::IndexView;
use words::{WORD, is_term_of, normalised, terms};
use writer::{MergedSegments, TextIndexWriter};

/// The texts of a document in which the units of a question are looked for.
pub const TEXTS: [&str; 6] = ["name", "tags", "skills", "type", "description", "body"];

/// What is looked up of one agent's document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexedDocument {
    pub aid: String,
    pub name: String,
    pub kind: String,
    pub description: String,
    /// Lower-case, each once.
    pub tags: Vec<String>,
    pub skills: String,
    /// The plain text of the Markdown.
    pub body: String,
    pub signed: bool,
    /// In milliseconds.
    pub updated_at: i64,
    pub source_ap: String,
    pub issuer: String,
}

impl IndexedDocument {
    /// In the order of [`TEXTS`]. The first label of the AID belongs to the name: those of its words that the name does not have, so that
    /// nobody counts twice who is called the same in both.
    pub fn texts(&self) -> [String; 6] {
        let mut name = self.name.clone();
        let named = terms(&self.name);
        for term in terms(self.aid.split('.').next().unwrap_or_default()) {
            if let Some(word) = is_term_of(WORD, &term).filter(|_| !named.contains(&term)) {
                name.push('\n');
                name.push_str(word);
            }
        }
        [
            name,
            self.tags.join("\n"),
            self.skills.clone(),
            self.kind.clone(),
            self.description.clone(),
            self.body.clone(),
        ]
    }
}

/// One entry of the log, as the index needs it.
#[derive(Clone, Debug)]
pub enum IndexChange {
    Upsert(Box<IndexedDocument>),
    /// By AID.
    Delete(String),
}

/// A question, and what the documents that answer it must have.
#[derive(Clone, Debug, Default)]
pub struct IndexQuery {
    pub q: String,
    /// All of them.
    pub tags: Vec<String>,
    pub kind: Option<String>,
    pub issuer: Option<String>,
    pub signed: Option<bool>,
    /// Documents of these sources are not found.
    pub hidden: HashSet<String>,
    pub now_ms: i64,
    /// Says of every hit how its score came about.
    pub explain: bool,
}

/// The position of a document in the answers to a question. What comes earlier is less.
#[derive(Clone, Debug)]
pub struct Rank {
    pub score: f64,
    pub updated_at: i64,
    pub aid: String,
}

/// A page of answers.
#[derive(Debug, Default)]
pub struct Found {
    pub hits: Vec<Hit>,
    /// Whether there are answers after the last of these.
    pub more: bool,
}

#[derive(Debug)]
pub struct Hit {
    pub rank: Rank,
    pub name: String,
    pub kind: String,
    pub description: String,
    pub tags: Vec<String>,
    pub signed: bool,
    pub source_ap: String,
    pub explanation: Option<Explanation>,
}

/// The summands of a score, in the order in which they are added. `units` says where the part of the same name comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    pub exact_aid: f64,
    pub name_equals: f64,
    pub name_prefix: f64,
    /// The square of the coverage, times the sum over the units.
    pub words: f64,
    pub signed: f64,
    pub freshness: f64,
    /// How much of the question the document covers, from 0 to 1.
    pub coverage: f64,
    pub units: Vec<UnitScore>,
}

/// What one unit of a question adds to the sum over the units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitScore {
    pub unit: String,
    /// How many documents have it.
    pub documents: u64,
    pub idf: f64,
    pub score: f64,
    pub found: Vec<UnitFound>,
}

/// How one text of a document has a unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitFound {
    /// One of [`TEXTS`].
    pub text: &'static str,
    /// What is in the text instead of the unit, where that is another word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// `written`, `stem`, `synonym`, `spelling`, `pairs` or `characters`.
    pub by: &'static str,
    pub strength: f64,
    /// At most three.
    pub occurrences: u32,
}

/// Why an index cannot be opened although nothing is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index in {} is used by another process", .0.display())]
    Locked(PathBuf),
}

/// A full-text index in a folder of its own, which only one process can open at a time.
pub struct TextIndex {
    writer: Mutex<TextIndexWriter>,
    reader: IndexReader,
    view: RwLock<Arc<IndexView>>,
    merged: MergedSegments,
    /// Empty tables of earlier queries.
    tables: Mutex<Vec<Matches>>,
}

impl TextIndex {
    /// Opens the index of a folder, or makes an empty one. An index that cannot be read, or that another version made, is
    /// replaced by an empty one. A folder that another process has open is [`IndexError::Locked`].
    pub fn open(folder: &Path) -> anyhow::Result<TextIndex> {
        let (index, writer) = open::open(folder)?;
        let reader = open::reader(&index)?;
        let view = IndexView::open(reader.searcher(), open::generation(&index)?)?;
        Ok(TextIndex {
            merged: writer.merged(),
            writer: Mutex::new(writer),
            reader,
            view: RwLock::new(Arc::new(view)),
            tables: Mutex::default(),
        })
    }

    /// The sequence of the log up to which the index is complete; 0 for a new one.
    pub fn generation(&self) -> i64 {
        self.view().generation
    }

    /// Makes the changes in this order, and the index complete up to `generation`. All of it is visible to queries
    /// when this returns, and outlives the process; after an error none of it is, and the same changes can be made again.
    pub fn apply(&self, changes: Vec<IndexChange>, generation: i64) -> anyhow::Result<()> {
        let mut writer = self.writer.lock();
        writer.commit(changes, generation).context("the changes could not be written to the index")?;
        self.show(generation)
    }

    /// How many documents there are.
    pub fn documents(&self) -> u64 {
        self.view().documents
    }

    /// The best answers to a question, or the best of those after a rank.
    pub fn query(&self, query: &IndexQuery, after: Option<&Rank>, limit: usize) -> anyhow::Result<Found> {
        self.use_merged_segments();
        let view = self.view();
        let mut question = Question::new(query);
        let mut matches = self.tables.lock().pop().unwrap_or_default();
        // After an error the table is dropped: it may not be empty.
        let found = query::find(&view, &mut matches, &mut question, query, after, limit)?;
        if matches.is_small() {
            self.tables.lock().push(matches);
        }
        Ok(found)
    }

    /// AIDs that begin with the prefix, in order; then those whose name begins with it, in order of name and AID.
    pub fn suggest_agents(
        &self,
        prefix: &str,
        hidden: &HashSet<String>,
        limit: usize,
    ) -> anyhow::Result<Vec<String>> {
        suggest::agents(&self.view(), &normalised(prefix), hidden, limit)
    }

    /// Tags that begin with the prefix and how many documents have them, the most used first.
    pub fn suggest_tags(
        &self,
        prefix: &str,
        hidden: &HashSet<String>,
        limit: usize,
    ) -> anyhow::Result<Vec<(String, u64)>> {
        suggest::tags(&self.view(), &normalised(prefix), hidden, limit)
    }

    fn view(&self) -> Arc<IndexView> {
        self.view.read().clone()
    }

    /// Segments are merged in the background; the next query uses what came of it. A commit that is under way does so itself.
    fn use_merged_segments(&self) {
        if !self.merged.take() {
            return;
        }
        let Some(_no_commit_meanwhile) = self.writer.try_lock() else { return self.merged.set(true) };
        if let Err(error) = self.show(self.generation()) {
            tracing::warn!("queries use the segments as they were before they were merged: {error:#}");
        }
    }

    /// The caller has the writer, so nothing is committed meanwhile.
    fn show(&self, generation: i64) -> anyhow::Result<()> {
        self.merged.set(false);
        self.reader.reload().context("the index could not be read again")?;
        *self.view.write() = Arc::new(IndexView::open(self.reader.searcher(), generation)?);
        Ok(())
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.score.total_cmp(&self.score))
            .then_with(|| other.updated_at.cmp(&self.updated_at))
            .then_with(|| self.aid.cmp(&other.aid))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Rank {}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
