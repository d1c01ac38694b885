//! Files that only their owner may read, written once.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes a folder, and those above it, that only its owner may enter.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file that must not exist yet: a key is readable by its owner only, anything else by everybody.
pub fn write_new(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        make_folder(folder)?;
    }
    let mode = if file.extension().is_some_and(|kind| kind == "key") { 0o600 } else { 0o644 };
    let mut open = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    open.write_all(text.as_bytes())?;
    open.sync_all()
}
