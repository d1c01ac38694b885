//! What the repository has because of its contracts: the containers and settings of a server of many processes, and the reference of
//! methods, events, settings and metrics. Nobody writes it by hand: `tests/generate` writes it, and a test here compares.

mod deploy;
mod markdown;
mod metrics;
mod reference;
mod region;
mod settings;

use crate::output;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of the repository, with the text that it should have.
struct GeneratedFile {
    /// From the top of the repository on.
    path: String,
    text: String,
}

async fn all() -> Vec<GeneratedFile> {
    let mut files = deploy::files();
    files.push(reference::file(&metrics::table().await));
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is in the workspace")
        .to_owned()
}

/// The text of a file of the repository; empty where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

#[tokio::test]
async fn generated_files_are_what_the_contracts_say() {
    let files = all().await;
    let old: Vec<&str> =
        files.iter().filter(|file| read(&file.path) != file.text).map(|file| &*file.path).collect();
    assert!(
        old.is_empty(),
        "{} is not what the contracts say: run tests/generate and commit what it changes",
        old.join(", ")
    );
}

#[tokio::test]
#[ignore = "it writes into the repository; tests/generate runs it"]
async fn write_generated_files() {
    for file in all().await.into_iter().filter(|file| read(&file.path) != file.text) {
        fs::write(root().join(&file.path), &file.text).unwrap();
        output::line(&file.path).unwrap();
    }
}
