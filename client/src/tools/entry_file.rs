//! A file with one JSON object a line, from which what is old is removed.

use crate::error::Error;
use crate::files;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What such a file consists of.
pub(super) trait TimedEntry: Serialize + DeserializeOwned {
    /// In unix milliseconds.
    fn timestamp(&self) -> i64;
}

/// All calls need [`locked`] around them, if something is written.
pub(super) struct EntryFile(PathBuf);

impl EntryFile {
    pub fn new(file: PathBuf) -> EntryFile {
        EntryFile(file)
    }

    /// The entries that are not older than a time. A line that cannot be read is as good as none.
    pub fn read<T: TimedEntry>(&self, since: i64) -> Result<Vec<T>, Error> {
        let text = match fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file(&self.0, "read", error)),
        };
        let entries = text.lines().filter_map(|line| serde_json::from_str::<T>(line).ok());
        Ok(entries.filter(|entry| entry.timestamp() >= since).collect())
    }

    /// Adds an entry. Where others are older than a time, the file is written anew without them.
    pub fn add<T: TimedEntry>(&self, entry: &T, since: i64) -> Result<(), Error> {
        let young: Vec<T> = self.read(since)?;
        let all = fs::read_to_string(&self.0).map_or(0, |text| text.lines().count());
        if young.len() == all {
            return append(&self.0, &line(entry)?).map_err(|error| Error::file(&self.0, "written", error));
        }
        let mut text = String::new();
        for entry in &young {
            text += &line(entry)?;
        }
        files::replace(&self.0, &(text + &line(entry)?))
    }
}

/// Does something while no other process of this machine does anything with the files of a folder.
pub(super) fn locked<T>(folder: &Path, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let file = folder.join("lock");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let open = || fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&file);
    let lock = made.and_then(|()| open()).and_then(|lock| lock.lock().map(|()| lock));
    let lock = lock.map_err(|error| Error::file(&file, "written", error))?;
    let done = work();
    drop(lock);
    done
}

fn line<T: Serialize>(entry: &T) -> Result<String, Error> {
    let text = serde_json::to_string(entry).map_err(|error| Error::Invalid(error.to_string()))?;
    Ok(text + "\n")
}

fn append(file: &Path, text: &str) -> io::Result<()> {
    let mut open = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file)?;
    open.write_all(text.as_bytes())?;
    open.sync_data()
}
