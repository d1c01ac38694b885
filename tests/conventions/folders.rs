//! No source folder has more Rust files than one can take in at a glance.

use std::collections::BTreeMap;

use super::source::files;

/// A folder with more gets subfolders.
const FILES: usize = 15;

#[test]
fn no_source_folder_has_over_fifteen_rust_files() {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files("", ".rs") {
        *folders.entry(file.folder()).or_default() += 1;
    }
    let over: Vec<(&str, usize)> = folders.into_iter().filter(|(_, many)| *many > FILES).collect();
    assert!(over.is_empty(), "these folders need subfolders: {over:?}");
}
