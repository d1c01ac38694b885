//! Opening: what is in the folder is used if all of it can be read, and is replaced otherwise.

use std::path::Path;

use anyhow::{Context as _, ensure};
use tantivy::directory::error::LockError;
use tantivy::directory::{Directory as _, INDEX_WRITER_LOCK};
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{Index, IndexReader, IndexSettings, ReloadPolicy, TantivyError};

use super::IndexError;
use super::directory::UnsyncedDirectory;
use super::fields::{IndexFields, TOKENIZER, WordTokenizer};
use super::segment::IndexView;
use super::writer::TextIndexWriter;
use kernel::files::make_folder;

/// Hits are read one by one from anywhere in the store, and a whole block is decompressed for each of them.
const STORE_BLOCK_BYTES: usize = 2048;

/// A segment has about this many store blocks that were asked for lately in memory.
const CACHED_STORE_BLOCKS: usize = 64;

pub(super) fn open(folder: &Path) -> anyhow::Result<(Index, TextIndexWriter)> {
    make_folder(folder).with_context(|| format!("{} could not be created", folder.display()))?;
    make_usable(folder)?;
    // Whoever takes the lock in between finds a usable index, and this fails.
    let index = open_existing(folder)?;
    let writer = TextIndexWriter::new(&index).map_err(|error| match error {
        TantivyError::LockFailure(LockError::LockBusy, _) => IndexError::Locked(folder.to_owned()).into(),
        error => anyhow::Error::new(error).context("the index could not be opened for writing"),
    })?;
    Ok((index, writer))
}

pub(super) fn reader(index: &Index) -> anyhow::Result<IndexReader> {
    let builder = index.reader_builder().reload_policy(ReloadPolicy::Manual);
    Ok(builder.doc_store_cache_num_blocks(CACHED_STORE_BLOCKS).try_into()?)
}

/// The payload of the last commit.
pub(super) fn generation(index: &Index) -> anyhow::Result<i64> {
    let payload = index.load_metas()?.payload;
    payload.map_or(Ok(0), |payload| payload.parse().context("the index does not say its generation"))
}

/// Nothing is deleted without the lock: another process may be using it.
fn make_usable(folder: &Path) -> anyhow::Result<()> {
    let directory = UnsyncedDirectory::open(folder)?;
    let _lock = match directory.acquire_lock(&INDEX_WRITER_LOCK) {
        Ok(lock) => lock,
        Err(LockError::LockBusy) => return Err(IndexError::Locked(folder.to_owned()).into()),
        Err(error) => return Err(error).context("the index could not be locked"),
    };
    if Index::exists(&directory)? {
        match check(folder) {
            Ok(()) => return Ok(()),
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(%folder, "the search index cannot be used and is rebuilt: {error:#}");
            }
        }
    }
    remove_files(folder)?;
    let settings = IndexSettings {
        docstore_blocksize: STORE_BLOCK_BYTES,
        // Most commits have few documents: not worth a thread.
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    };
    let (schema, _) = IndexFields::new();
    Index::create(UnsyncedDirectory::open(folder)?, schema, settings)
        .context("an empty index could not be created")?;
    Ok(())
}

/// Whether everything in the folder can be read.
fn check(folder: &Path) -> anyhow::Result<()> {
    let index = open_existing(folder)?;
    let (schema, _) = IndexFields::new();
    ensure!(index.schema() == schema, "it was made by another version");
    let damaged = index.validate_checksum()?;
    ensure!(damaged.is_empty(), "files are damaged: {damaged:?}");
    IndexView::open(reader(&index)?.searcher(), generation(&index)?)?;
    Ok(())
}

fn open_existing(folder: &Path) -> anyhow::Result<Index> {
    let index = Index::open(UnsyncedDirectory::open(folder)?)?;
    index.tokenizers().register(TOKENIZER, TextAnalyzer::from(WordTokenizer));
    Ok(index)
}

fn remove_files(folder: &Path) -> anyhow::Result<()> {
    let removed = || -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_file() && !path.ends_with(&INDEX_WRITER_LOCK.filepath) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    };
    removed().with_context(|| format!("{} could not be emptied", folder.display()))
}
