//! The files of an index, without waiting for the disk.
//!
//! A process that dies loses nothing: what it wrote is in the memory of the kernel. A machine that dies can lose the last
//! writes, and then files are missing, short or do not have their checksum, which is found when the index is opened; it is
//! made anew from the log. That is rare, and tantivy would wait for the disk about twenty times for each commit, beside a
//! store that waits for it, too.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::Directory;
use tantivy::directory::error::{DeleteError, LockError, OpenDirectoryError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite, WatchCallback,
    WatchHandle, WritePtr,
};

#[derive(Clone, Debug)]
pub(super) struct UnsyncedDirectory {
    folder: PathBuf,
    mapped: MmapDirectory,
}

struct UnsyncedFile(File);

impl UnsyncedDirectory {
    pub(super) fn open(folder: &Path) -> Result<UnsyncedDirectory, OpenDirectoryError> {
        Ok(UnsyncedDirectory { folder: folder.to_owned(), mapped: MmapDirectory::open(folder)? })
    }
}

impl Directory for UnsyncedDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.mapped.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.mapped.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.mapped.exists(path)
    }

    /// A commit that was not finished may have left a file of this name, because the next one counts on from the same
    /// number. Nothing refers to it.
    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let whole = self.folder.join(path);
        let created = match fs::remove_file(&whole) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => File::create_new(&whole),
        };
        let file = created.map_err(|error| OpenWriteError::wrap_io_error(error, path.to_owned()))?;
        Ok(BufWriter::new(Box::new(UnsyncedFile(file))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.mapped.atomic_read(path)
    }

    /// Tantivy writes no two at a time under one name.
    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let whole = self.folder.join(path);
        let new = whole.with_extension("new");
        fs::write(&new, data)?;
        fs::rename(new, whole)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.mapped.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.mapped.watch(callback)
    }
}

impl Write for UnsyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for UnsyncedFile {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.0.flush()
    }
}
