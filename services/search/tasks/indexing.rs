//! Keeps the index of this process: from the log, and anew from the documents where that is asked for or the log does not reach
//! back far enough. The index holds nothing that the store does not.

use crate::document::StoredDocument;
use crate::index::{IndexChange, IndexError, TextIndex};
use crate::store::IndexRow;
use crate::{Error, SearchService};
use anyhow::Context as _;
use kernel::files::make_folder;
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it looks when nothing wakes it: a change is told over the bus, which may lose it.
const EVERY: Duration = Duration::from_millis(500);
/// Log entries that are read, and documents that are committed to the index, at once.
const PAGE: i64 = 1000;
/// An index that is so far behind is made anew: that is faster.
const FAR_BEHIND: i64 = 20_000;
/// Processes that can have an index below one data folder.
const MOST_PROCESSES: usize = 16;
const SIDES: [&str; 2] = ["a", "b"];

/// Where the index of this process is. It has two sides: a new index is made on one while the other answers.
pub(crate) struct IndexFolder {
    folder: PathBuf,
    side: Mutex<usize>,
}

impl IndexFolder {
    /// The first folder that no other process has.
    pub fn open(root: &Path) -> anyhow::Result<(IndexFolder, TextIndex)> {
        for process in 0..MOST_PROCESSES {
            let folder = root.join(process.to_string());
            match open_newest(&folder) {
                Err(error) if matches!(error.downcast_ref(), Some(IndexError::Locked(_))) => {}
                opened => {
                    let (side, index) = opened.with_context(|| folder.display().to_string())?;
                    return Ok((IndexFolder { folder, side: Mutex::new(side) }, index));
                }
            }
        }
        anyhow::bail!("{} processes have an index in {} already", MOST_PROCESSES, root.display())
    }

    /// An empty index on the side that is not used.
    fn open_other(&self) -> anyhow::Result<TextIndex> {
        let folder = self.folder.join(SIDES[1 - *self.side.lock()]);
        remove(&folder)?;
        TextIndex::open(&folder)
    }

    /// From now on the other side is used.
    fn turn(&self) {
        let mut side = self.side.lock();
        let old = self.folder.join(SIDES[*side]);
        *side = 1 - *side;
        // Searches that are under way have its files open, and read on. What cannot be removed now is removed before it is used
        // again.
        if let Err(error) = remove(&old) {
            tracing::debug!("the old index could not be removed: {error:#}");
        }
    }
}

/// Where a process ended while it made a new index, both sides have something: the one that got further counts.
fn open_newest(folder: &Path) -> anyhow::Result<(usize, TextIndex)> {
    make_folder(folder)?;
    let first = TextIndex::open(&folder.join(SIDES[0]))?;
    let other = folder.join(SIDES[1]);
    if !other.exists() {
        return Ok((0, first));
    }
    let second = TextIndex::open(&other)?;
    let newest = usize::from(second.generation() > first.generation());
    remove(&folder.join(SIDES[1 - newest]))?;
    Ok((newest, if newest == 0 { first } else { second }))
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

/// How far a new index is.
#[derive(Default)]
pub(crate) struct Rebuilding {
    /// Documents done and to be done.
    progress: Mutex<Option<(i64, i64)>>,
    /// For how many requests this process has made its index anew.
    done_for: Mutex<Option<i64>>,
}

impl Rebuilding {
    /// Between 0 and 1, while an index is made.
    pub fn progress(&self) -> Option<f64> {
        let (done, all) = (*self.progress.lock())?;
        Some((done as f64 / all.max(1) as f64).min(1.0))
    }
}

impl SearchService {
    /// Runs until the server stops.
    pub(crate) async fn keep_index(&self) {
        let mut failing = false;
        loop {
            let indexed = match self.refresh_peer_states().await {
                Ok(()) => self.index_all().await,
                Err(error) => Err(error),
            };
            if let Err(error) = &indexed
                && !failing
            {
                tracing::warn!("the index could not be updated, will try again: {error}");
            }
            failing = indexed.is_err();
            let woken = self.wake.index.notified();
            let _ = tokio::time::timeout(EVERY, woken).await;
        }
    }

    /// Brings the index to where the log is.
    pub(crate) async fn index_all(&self) -> Result<(), Error> {
        loop {
            let state = self.store.state().await?;
            let asked = *self.rebuilding.done_for.lock().get_or_insert(state.rebuilds) != state.rebuilds;
            let generation = self.index().generation();
            let unusable = generation > state.sequence || generation < state.floor;
            if asked || unusable || state.sequence - generation > FAR_BEHIND {
                let rebuilt = self.make_index_anew().await;
                *self.rebuilding.progress.lock() = None;
                rebuilt?;
                *self.rebuilding.done_for.lock() = Some(state.rebuilds);
            } else if !self.index_page().await? {
                self.level.store(true, Ordering::Relaxed);
                return Ok(());
            }
        }
    }

    /// Adds a page of the log to the index; returns whether there was one.
    async fn index_page(&self) -> Result<bool, Error> {
        let (index, head) = (self.index(), self.store.state().await?.sequence);
        let generation = index.generation();
        self.metrics.index_lag.set(head - generation);
        if generation >= head {
            return Ok(false);
        }
        let (aids, reached) = self.store.changed_aids(generation, head, PAGE).await?;
        let mut changes = Vec::with_capacity(aids.len());
        for aid in aids {
            let row = self.store.index_row(&aid).await?;
            changes.push(row.and_then(upsert).unwrap_or(IndexChange::Delete(aid)));
        }
        apply(&index, changes, reached).await?;
        self.metrics.index_lag.set(head - reached);
        Ok(true)
    }

    /// Makes a new index from all documents. The old one answers meanwhile, and is kept up to date.
    async fn make_index_anew(&self) -> Result<(), Error> {
        let new = Arc::new(self.folder.open_other().map_err(Error::Index)?);
        // Read first: what changes from now on is in the log after it.
        let generation = self.store.state().await?.sequence;
        let (all, mut done, mut after) = (self.store.listed().await?, 0, String::new());
        loop {
            *self.rebuilding.progress.lock() = Some((done, all));
            let rows = self.store.index_rows(&after, PAGE).await?;
            let Some(last) = rows.last() else { break };
            after.clone_from(&last.aid);
            done += rows.len() as i64;
            // It counts as complete only at its end.
            apply(&new, rows.into_iter().filter_map(upsert).collect(), 0).await?;
            if self.index().generation() >= self.store.state().await?.floor {
                self.index_page().await?;
            }
        }
        apply(&new, Vec::new(), generation).await?;
        let old = std::mem::replace(&mut *self.index.write(), new);
        // It ends when the last search that uses it does, and waits for its own threads then.
        let ended = tokio::task::spawn_blocking(move || drop(old)).await;
        ended.map_err(|error| Error::Index(error.into()))?;
        self.folder.turn();
        tracing::info!("the index was rebuilt from {done} documents");
        Ok(())
    }
}

fn upsert(row: IndexRow) -> Option<IndexChange> {
    let IndexRow { aid, source_ap, signed, content, updated_at, manifest_words } = &row;
    let manifest_words = manifest_words.as_deref().unwrap_or_default();
    let (signed, updated_at) = (*signed == 1, *updated_at);
    let stored = StoredDocument { aid, content, source_ap, signed, updated_at, manifest_words };
    Some(IndexChange::Upsert(Box::new(stored.indexed()?)))
}

async fn apply(index: &Arc<TextIndex>, changes: Vec<IndexChange>, generation: i64) -> Result<(), Error> {
    let index = index.clone();
    let applying = tokio::task::spawn_blocking(move || index.apply(changes, generation));
    applying.await.map_err(|error| Error::Index(error.into()))?.map_err(Error::Index)
}
