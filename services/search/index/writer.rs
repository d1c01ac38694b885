//! Writing: a batch of changes is one commit, and the segments that commits leave behind are merged in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantivy::index::SegmentMeta;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy, MergeCandidate, MergePolicy};
use tantivy::{Index, IndexWriter, Term};

use super::IndexChange;
use super::fields::IndexFields;

/// The writer of tantivy.
pub(super) struct TextIndexWriter {
    index: Index,
    /// None after an error, until the next commit.
    writer: Option<IndexWriter>,
    merged: MergedSegments,
}

/// Whether there are segments that queries do not use yet, because they were merged since the last commit.
#[derive(Clone, Debug, Default)]
pub(super) struct MergedSegments(Arc<AtomicBool>);

impl TextIndexWriter {
    pub(super) fn new(index: &Index) -> tantivy::Result<TextIndexWriter> {
        let merged = MergedSegments::default();
        Ok(TextIndexWriter { index: index.clone(), writer: Some(start(index, &merged)?), merged })
    }

    pub(super) fn merged(&self) -> MergedSegments {
        self.merged.clone()
    }

    /// All of it or nothing. Tantivy writes the segments first and then replaces the list of segments, which has the
    /// generation, in one step: a process that dies before leaves the last commit as it was.
    pub(super) fn commit(&mut self, changes: Vec<IndexChange>, generation: i64) -> tantivy::Result<()> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => start(&self.index, &self.merged)?,
        };
        let written = write(&mut writer, changes, generation);
        match written {
            Ok(()) => self.writer = Some(writer),
            // An error ends the threads of a writer, and it has changes that nobody wants any more. The next one begins
            // at the last commit.
            Err(_) => close(writer),
        }
        written
    }
}

/// With one thread that indexes and one that merges, and the least memory it can have.
fn start(index: &Index, merged: &MergedSegments) -> tantivy::Result<IndexWriter> {
    let options = IndexWriterOptions::builder().num_worker_threads(1).num_merge_threads(1).build();
    let writer: IndexWriter = index.writer_with_options(options)?;
    let policy = ToldMergePolicy { policy: merge_policy(), merged: merged.clone() };
    writer.set_merge_policy(Box::new(policy));
    Ok(writer)
}

/// Waits for merges: one that goes on would remove files that the next writer relies on.
fn close(writer: IndexWriter) {
    if let Err(error) = writer.wait_merging_threads() {
        tracing::warn!("segments of the search index were not merged: {error}");
    }
}

fn write(writer: &mut IndexWriter, changes: Vec<IndexChange>, generation: i64) -> tantivy::Result<()> {
    let (_, fields) = IndexFields::new();
    for change in changes {
        match change {
            IndexChange::Upsert(document) => {
                writer.delete_term(Term::from_field_text(fields.aid, &document.aid));
                writer.add_document(fields.document(&document))?;
            }
            IndexChange::Delete(aid) => {
                writer.delete_term(Term::from_field_text(fields.aid, &aid));
            }
        }
    }
    let mut prepared = writer.prepare_commit()?;
    prepared.set_payload(&generation.to_string());
    prepared.commit()?;
    Ok(())
}

/// A commit of one document is a segment of one document. Four of a size are merged, where everything below a thousand
/// documents is of one size, and then sizes grow by eight, so that a query meets about a dozen segments. Where a fifth of
/// a segment is deleted, it is written again without that.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_num_segments(4);
    policy.set_min_layer_size(1000);
    policy.set_level_log_size(3.0);
    policy.set_del_docs_ratio_before_merge(0.2);
    policy
}

/// Tantivy asks for what to merge whenever the list of segments has changed, and so also after a merge.
#[derive(Debug)]
struct ToldMergePolicy {
    policy: LogMergePolicy,
    merged: MergedSegments,
}

impl MergePolicy for ToldMergePolicy {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        self.merged.set(true);
        self.policy.compute_merge_candidates(segments)
    }
}

impl MergedSegments {
    pub(super) fn set(&self, merged: bool) {
        self.0.store(merged, Ordering::Release);
    }

    /// From now on there are none.
    pub(super) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Acquire)
    }
}

impl Drop for TextIndexWriter {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            close(writer);
        }
    }
}
