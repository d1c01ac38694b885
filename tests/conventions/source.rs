//! The files of the repository, and Rust as far as the conventions have to read it.

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
    repository().iter().filter(move |file| {
        let below =
            file.path.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.starts_with('/'));
        below && file.path.ends_with(end)
    })
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

/// What a stretch of Rust is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    Code,
    Comment,
    /// A string literal with its quotation marks.
    Text,
}

/// Cuts Rust into code, comments and string literals. Characters in single quotes are code.
pub fn stretches(text: &str) -> Vec<(Stretch, &str)> {
    let (bytes, mut found, mut begin, mut at) = (text.as_bytes(), Vec::new(), 0, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (kind, length) = match rest {
            [b'/', b'/', ..] => (Stretch::Comment, line_length(rest)),
            [b'/', b'*', ..] => (Stretch::Comment, block_comment_length(rest)),
            [b'"', ..] => (Stretch::Text, string_length(rest)),
            [b'r', b'"' | b'#', ..] if !follows_word(bytes, at) && raw_string_length(rest).is_some() => {
                (Stretch::Text, raw_string_length(rest).unwrap_or(1))
            }
            [b'\'', ..] => {
                at += character_length(text, at);
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        if begin < at {
            found.push((Stretch::Code, &text[begin..at]));
        }
        found.push((kind, &text[at..at + length]));
        at += length;
        begin = at;
    }
    if begin < at {
        found.push((Stretch::Code, &text[begin..]));
    }
    found
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    // The `b` of `br"…"` belongs to the literal.
    let before = at.checked_sub(1).map(|before| bytes[before]);
    let prefix = before == Some(b'b') && !at.checked_sub(2).is_some_and(|before| is_word(bytes[before]));
    before.is_some_and(is_word) && !prefix
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of `r"…"` or `r#"…"#`; a raw identifier such as `r#type` has none.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let body = 2 + hashes;
    let length = rest[body..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| body + length + end.len()))
}

/// The length of a character in single quotes, or 1 where the quote begins a lifetime.
fn character_length(text: &str, at: usize) -> usize {
    let mut inside = text[at + 1..].chars();
    match inside.next() {
        Some('\\') => {
            let escaped = inside.next().map_or(0, char::len_utf8);
            let rest = &text[at + 2 + escaped..];
            2 + escaped + rest.find('\'').map_or(0, |end| end + 1)
        }
        Some(character) if inside.next() == Some('\'') => character.len_utf8() + 2,
        _ => 1,
    }
}

/// Rust without comments and with empty string literals; lines stay where they are.
pub fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (kind, stretch) in stretches(text) {
        match kind {
            Stretch::Code => code.push_str(stretch),
            Stretch::Comment => code.extend(stretch.chars().filter(|character| *character == '\n')),
            Stretch::Text => {
                code.push('"');
                code.extend(stretch.chars().filter(|character| *character == '\n'));
                code.push('"');
            }
        }
    }
    code
}

/// The words and signs of Rust that [`code`] has left: an identifier, `::`, or one character.
pub fn tokens(code: &str) -> Vec<&str> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < code.len() {
        let rest = &code[at..];
        let first = rest.chars().next().unwrap_or(' ');
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else if first == '\'' {
            character_length(code, at)
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            found.push(&rest[..length]);
        }
        at += length;
    }
    found
}

/// The tokens without what is compiled only for tests: items, fields and statements behind `#[cfg(test)]`.
pub fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::with_capacity(tokens.len()), 0);
    while at < tokens.len() {
        if tokens[at..].starts_with(&MARK) {
            at = end_of_item(tokens, at + MARK.len());
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Where the item, field or statement ends that begins here.
fn end_of_item(tokens: &[&str], mut at: usize) -> usize {
    while tokens[at..].starts_with(&["#", "["]) {
        at = end_of_group(tokens, at + 1);
    }
    // A block ends a function or a module; an import, a constant or a statement goes on behind it.
    let ends_with_block =
        tokens[at..].iter().take_while(|token| !["{", ";", "=", ","].contains(token)).any(|token| {
            ["fn", "mod", "struct", "enum", "union", "trait", "impl", "macro_rules"].contains(token)
        });
    while at < tokens.len() {
        match tokens[at] {
            ";" => return at + 1,
            "," if !ends_with_block => return at + 1,
            "}" | ")" | "]" => return at,
            "{" if ends_with_block => return end_of_group(tokens, at),
            "{" | "(" | "[" => at = end_of_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Behind the bracket that closes the one here.
pub fn end_of_group(tokens: &[&str], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < tokens.len() {
        match tokens[at] {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
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
fn rust_is_cut_into_code_comments_and_strings() {
    let text = "let a = 'x'; // \"no\"\nlet b: &'static str = r#\"a \"b\" // c\"#; /* x /* y */ */ call('\"', \"\\\"\", b'\\'');";
    let kinds: Vec<Stretch> = stretches(text).iter().map(|(kind, _)| *kind).collect();
    let whole: String = stretches(text).iter().map(|(_, stretch)| *stretch).collect();
    assert_eq!(whole, text);
    use Stretch::{Code, Comment, Text};
    assert_eq!(kinds, [Code, Comment, Code, Text, Code, Comment, Code, Text, Code]);
    assert!(!code(text).contains("no") && code(text).contains("&'static str = \"\";"), "{}", code(text));
}

#[test]
fn what_is_compiled_for_tests_is_left_out() {
    let text = "use a::b; #[cfg(test)] use c::{d, e}; struct S { #[cfg(test)] f: u8, g: u8 } \
                #[cfg(test)] #[path = \"\"] mod tests; #[cfg(test)] mod more { fn f() { g(); } } fn h() { #[cfg(test)] i(j, k); l() }";
    let kept = without_tests(&tokens(text)).join(" ");
    assert_eq!(kept, "use a :: b ; struct S { g : u8 } fn h ( ) { l ( ) }");
}

#[test]
fn names_and_sentences_have_words() {
    let words = |text: &str| words(text).collect::<Vec<_>>().join(" ");
    assert_eq!(
        words("PeerQueue peer_queue2 HTTPServer AID's x"),
        "peer queue peer queue http server aid s x"
    );
}
