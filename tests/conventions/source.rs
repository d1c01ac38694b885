//! The files of the repository, and the words in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// What stands at the top of the repository and is ours. Anything else there, such as data of a server, is not read.
pub const TOP: [&str; 7] = ["certs", "client", "docs", "gateway", "proto-schemas", "services", "tests"];

/// Folders that tools make.
const MADE: [&str; 5] = ["target", "__pycache__", "corpus", "artifacts", "coverage"];

/// A file of the repository.
pub struct SourceFile {
    /// From the top of the repository on, with slashes.
    pub path: String,
    /// Empty where the file is no text.
    pub text: String,
}

impl SourceFile {
    /// Whether the file is in a folder, or in one inside it. All are below the empty one.
    pub fn is_below(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.starts_with('/'))
    }

    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is inside the workspace")
        .to_owned()
}

/// Every file of the repository, read once for all tests.
pub fn repository() -> &'static [SourceFile] {
    static FILES: LazyLock<Vec<SourceFile>> = LazyLock::new(|| {
        let mut files = Vec::new();
        for entry in entries(&root()) {
            let name = name(&entry);
            if entry.is_file() || TOP.contains(&name.as_str()) {
                read(&entry, &name, &mut files);
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    });
    &FILES
}

/// The files below a folder whose path ends like this.
pub fn files<'a>(folder: &'a str, end: &'a str) -> impl Iterator<Item = &'static SourceFile> + use<'a> {
    repository().iter().filter(move |file| file.is_below(folder) && file.path.ends_with(end))
}

pub fn file(path: &str) -> Option<&'static SourceFile> {
    repository().iter().find(|file| file.path == path)
}

fn read(path: &Path, shown: &str, files: &mut Vec<SourceFile>) {
    if path.is_file() {
        let text = fs::read(path).map(|bytes| String::from_utf8(bytes).unwrap_or_default());
        let text = text.unwrap_or_else(|error| panic!("{shown}: {error}"));
        files.push(SourceFile { path: shown.to_owned(), text });
        return;
    }
    for entry in entries(path) {
        let name = name(&entry);
        if !MADE.contains(&name.as_str()) && !name.starts_with('.') {
            read(&entry, &format!("{shown}/{name}"), files);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The words of a name or a sentence, in lower case: `PeerQueue`, `peer_queue` and `peer queue` have the same.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let characters: Vec<char> = text.chars().collect();
    for (at, character) in characters.iter().enumerate() {
        let next_is_small = characters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let begins = character.is_uppercase()
            && (word.chars().next_back().is_some_and(|last| !last.is_uppercase()) || next_is_small);
        if (begins || !character.is_alphabetic()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphabetic() {
            word.push(*character);
        }
    }
    words.push(word);
    words.into_iter().filter(|word| !word.is_empty()).map(|word| word.to_lowercase())
}

#[test]
fn names_and_sentences_have_words() {
    let words = |text: &str| words(text).collect::<Vec<_>>().join(" ");
    assert_eq!(
        words("PeerQueue peer_queue2 HTTPServer AID's x"),
        "peer queue peer queue http server aid s x"
    );
}
