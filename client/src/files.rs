//! Files that are there whole or not at all, and that only their owner may read.

use super::chance::tagged;
use super::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub(crate) fn read(file: &Path) -> Result<String, Error> {
    fs::read_to_string(file).map_err(|error| Error::file(file, "read", error))
}

/// Writes a file that must not exist yet.
pub(crate) fn put_new(file: &Path, text: &str) -> Result<(), Error> {
    let put = draft(file, text).and_then(|draft| {
        let linked = fs::hard_link(&draft, file);
        fs::remove_file(&draft).and(linked)
    });
    put.map_err(|error| Error::file(file, "written", error))
}

/// The same, and a file that exists already stays as it is.
pub(crate) fn put_once(file: &Path, text: &str) -> Result<(), Error> {
    if file.exists() {
        return Ok(());
    }
    put_new(file, text).or_else(|error| file.exists().then_some(()).ok_or(error))
}

/// Writes a file over an older one, if there is one.
pub(crate) fn replace(file: &Path, text: &str) -> Result<(), Error> {
    let put = draft(file, text).and_then(|draft| fs::rename(&draft, file));
    put.map_err(|error| Error::file(file, "written", error))
}

/// A finished file under a name of its own, in the folder where it will stay.
fn draft(file: &Path, text: &str) -> io::Result<PathBuf> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let draft = folder.join(tagged(".draft"));
    let mut open = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = open.write_all(text.as_bytes()).and_then(|()| open.sync_all());
    match written {
        Ok(()) => Ok(draft),
        Err(error) => fs::remove_file(&draft).and(Err(error)),
    }
}
