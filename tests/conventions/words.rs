//! The words of the project are those of the protocol: none of the words that were replaced comes back.
//!
//! Names are read like sentences, so `PeerQueue`, `peer_queue` and "peer queue" are the same words. What is shipped and
//! cannot change keeps its words: the tables and columns of migrations, SQL, and the members of stored JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::rust::{RustModule, rust_file};
use super::source::{SourceFile, files, repository, words};
use super::stretches::{Stretch, stretches};

/// Words that are refused in names, messages and documents, and what to say instead.
const REFUSED: [(&[&str], &str); 20] = [
    (&["letter", "letters"], "message, stored message, or row"),
    (&["bell", "bells", "doorbell", "doorbells"], "event or notification"),
    (&["rung"], "notified, published, or delivered"),
    (&["room", "rooms"], "service, or space"),
    (&["door", "doors"], "gateway"),
    (&["desk", "desks"], "what it is: writer, queue, or laptop"),
    (&["lane", "lanes"], "queue, of each recipient for instance"),
    (&["seat", "seats", "seated"], "session, or device and slot"),
    (&["guest", "guests"], "session, or inbound peer link"),
    (&["stranger", "strangers"], "unauthenticated, or unknown"),
    (&["sheet", "sheets"], "batch, page, or row"),
    (&["abroad"], "in another domain, or peer"),
    (&["goodbye", "goodbyes"], "close reason"),
    (&["story", "stories"], "integration test"),
    (&["shelf", "shelves"], "volatile store"),
    (&["fleeting"], "volatile, or with a ttl"),
    (&["filing", "unfiled"], "index, unindexed"),
    (&["purging"], "retention"),
    (&["neighbour", "neighbours", "neighbor", "neighbors"], "peer"),
    (&["house", "houses", "misfortune", "misfortunes"], "what it is"),
];

/// Words that sentences need now and then, and that are refused in the names of types, modules and files.
const REFUSED_AS_NAMES: [(&[&str], &str); 12] = [
    (&["place", "places"], "inbox entry, slot, path, or position"),
    (&["line", "lines"], "peer link, or peer queue"),
    (&["bound"], "session"),
    (&["flight"], "pending request; `InFlight` is fine"),
    (&["border"], "forwarder"),
    (&["judge"], "verifier"),
    (&["finding", "findings"], "lookup, or result"),
    (&["post"], "writer, or queue"),
    (&["mail"], "message"),
    (&["pump"], "reader, writer, or task"),
    (&["wiring"], "what it connects"),
    (&["ear", "ears"], "subscription"),
];

/// Where a refused word is the right one, and why.
const EXCEPTIONS: [(&str, &str, &str); 6] = [
    ("services/search/index/tests/judged/", "*", "agents and questions as people write them"),
    ("proto-schemas/src/reserved.rs", "guest", "the protocol reserves AIDs that begin with it"),
    ("tests/conventions/words.rs", "*", "it lists them"),
    ("services/auth/", "guest", "the protocol reserves AIDs that begin with it"),
    ("tests/auth/create_aid.rs", "guest", "the protocol reserves AIDs that begin with it"),
    ("proto-schemas/auth/", "guest", "the protocol reserves AIDs that begin with it"),
];

/// Files that are read; lists and licences of others are not ours to word.
fn is_read(path: &str) -> bool {
    const ENDS: [&str; 6] = [".rs", ".md", ".py", ".json", ".toml", ".yml"];
    let script = ["tests/run", "tests/split/serve"].contains(&path) || path.starts_with("gateway/deploy/");
    (script || ENDS.iter().any(|end| path.ends_with(end))) && !path.contains("/migrations/")
}

fn instead(list: &'static [(&[&str], &str)], word: &str) -> Option<&'static str> {
    list.iter().find(|(words, _)| words.contains(&word)).map(|(_, say)| *say)
}

fn is_exception(path: &str, word: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|(begin, allowed, _)| path.starts_with(begin) && (*allowed == "*" || *allowed == word))
}

/// Every name that a migration uses: tables, columns, indexes, functions, and members of JSON inside them.
fn shipped_names() -> &'static BTreeSet<&'static str> {
    static NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let lines = files("", ".sql").flat_map(|file| file.text.lines());
        let code = lines.map(|line| line.split("--").next().unwrap_or(line));
        code.flat_map(|line| line.split(|next: char| !next.is_alphanumeric() && next != '_')).collect()
    });
    &NAMES
}

fn is_sql(text: &str) -> bool {
    const WORDS: [&str; 29] = [
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "FROM",
        "WHERE",
        "VALUES",
        "CREATE",
        "DROP",
        "ALTER",
        "ANALYZE",
        "ATTACH",
        "PRAGMA",
        "TRUNCATE",
        "UNNEST",
        "JOIN",
        "VACUUM",
        "EXPLAIN",
        "ORDER",
        "GROUP",
        "RETURNING",
        "CONFLICT",
        "TABLE",
        "INDEX",
        "LIMIT",
        "UNION",
        "EXISTS",
        "COLUMN",
        "AS",
    ];
    text.split(|next: char| !next.is_alphanumeric() && next != '_').any(|word| WORDS.contains(&word))
}

/// A sentence without what it quotes of the outside: shipped names, and paths of migrations.
fn without_quotes(line: &str) -> String {
    let mut kept = String::new();
    for (n, part) in line.split('`').enumerate() {
        let quoted = n % 2 == 1;
        let name = part.rsplit('.').next().unwrap_or(part);
        if !(quoted && (shipped_names().contains(name) || part.contains("migrations/"))) {
            kept.push_str(part);
        }
        kept.push(' ');
    }
    kept.split_whitespace().filter(|word| !word.contains("migrations/")).collect::<Vec<_>>().join(" ")
}

/// The sentences and names of a file, each with the number of its line.
fn sentences(file: &SourceFile) -> Vec<(usize, String)> {
    if !file.path.ends_with(".rs") {
        return lines_of_document(file);
    }
    let (mut found, mut line, mut before) = (Vec::new(), 1, "");
    for (kind, stretch) in stretches(&file.text) {
        let inside = stretch.trim_start_matches(['b', 'r', '#', '"']).trim_end_matches(['#', '"']);
        let shipped = kind == Stretch::Text
            && (is_sql(stretch)
                || shipped_names().contains(inside)
                || before.trim_end().ends_with("rename ="));
        if !shipped {
            let each = stretch.lines().enumerate();
            found.extend(each.map(|(n, text)| {
                let text = if kind == Stretch::Comment { without_quotes(text) } else { text.to_owned() };
                (line + n, text)
            }));
        }
        line += stretch.matches('\n').count();
        before = stretch;
    }
    found
}

fn lines_of_document(file: &SourceFile) -> Vec<(usize, String)> {
    let history = file.path.starts_with("docs/decisions/");
    let lines = file.text.lines().enumerate();
    let kept = lines.filter(|(_, line)| !(is_sql(line) || history && line.contains("replaced")));
    kept.map(|(n, line)| {
        let line = without_quotes(line);
        // The changelog says which metrics were renamed.
        let changed = file.path == "CHANGELOG.md";
        let words = line.split_whitespace().filter(|word| !(changed && word.contains("aund_")));
        (n + 1, words.collect::<Vec<_>>().join(" "))
    })
    .collect()
}

/// The types and modules that a file declares, and its own name.
fn names(file: &SourceFile, rust: Option<&RustModule>) -> Vec<String> {
    let mut names: Vec<String> =
        file.path.split('/').map(|name| name.split('.').next().unwrap_or(name).to_owned()).collect();
    for module in rust.into_iter().flat_map(RustModule::each) {
        names.extend(module.types.iter().cloned().chain([module.name.clone()]));
    }
    if file.path.ends_with(".py") {
        let classes = file.text.lines().filter_map(|line| line.strip_prefix("class "));
        names.extend(classes.filter_map(|rest| rest.split(['(', ':']).next()).map(str::to_owned));
    }
    names
}

/// What stands behind a word in a name may make it another one.
fn is_other_word(words: &[String], at: usize) -> bool {
    words[at] == "flight" && at > 0 && words[at - 1] == "in"
}

fn complaints(file: &SourceFile, rust: Option<&RustModule>) -> Vec<String> {
    let mut found = Vec::new();
    let mut complain = |place: String, word: &str, say: &str| {
        if !is_exception(&file.path, word) {
            let complaint = format!("{place}: {word:?}: say {say}");
            if found.last() != Some(&complaint) {
                found.push(complaint);
            }
        }
    };
    for (line, sentence) in sentences(file) {
        for word in words(&sentence) {
            if let Some(say) = instead(&REFUSED, &word) {
                complain(format!("{}:{line}", file.path), &word, say);
            }
        }
    }
    for name in names(file, rust) {
        let parts: Vec<String> = words(&name).collect();
        for (at, word) in parts.iter().enumerate() {
            // A namespace may be called as the protocol calls it.
            let namespace = file.path.starts_with(&format!("services/{name}/"))
                || file.path.starts_with(&format!("proto-schemas/{name}/"));
            let refused =
                instead(&REFUSED_AS_NAMES, word).filter(|_| !is_other_word(&parts, at) && !namespace);
            if let Some(say) = refused {
                complain(format!("{}: {name}", file.path), word, say);
            }
        }
        for word in words(&name).filter(|_| file.path.split('/').any(|part| part.starts_with(&name))) {
            if let Some(say) = instead(&REFUSED, &word) {
                complain(format!("{}: the name of the file", file.path), &word, say);
            }
        }
    }
    found
}

#[test]
fn no_replaced_word_comes_back() {
    let mut by_file: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in repository().iter().filter(|file| is_read(&file.path)) {
        let rust = rust_file(&file.path).map(|rust| &rust.whole);
        let found = complaints(file, rust);
        if !found.is_empty() {
            by_file.insert(&file.path, found);
        }
    }
    let many: usize = by_file.values().map(Vec::len).sum();
    let lines: Vec<String> = by_file.into_values().flatten().collect();
    assert!(lines.is_empty(), "{many} words were replaced and are there again:\n{}", lines.join("\n"));
}

#[test]
fn replaced_words_are_found_in_names_strings_and_sentences() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let found = |path: &str, text: &str| {
        let rust = path.ends_with(".rs").then(|| RustModule::made_up(text, true));
        complaints(&file(path, text), rust.as_ref()).len()
    };
    for bad in [
        "struct LetterBox;",
        "fn ring_door_bells() {}",
        "// An unfiled one.",
        "const A: &str = \"the room is taken\";",
        "mod shelf;",
    ] {
        assert!(found("services/x.rs", bad) > 0, "{bad}");
    }
    for good in [
        "fn indoor() {}",
        "// A broom in the ring, newsletter.",
        "const A: &str = \"SELECT * FROM letter\";",
        "struct InFlight;",
    ] {
        assert_eq!(found("services/x.rs", good), 0, "{good}");
    }
    for bad in ["struct PeerLine;", "enum BoundTo {}", "mod post;", "pub trait Ear {}", "struct Flight;"] {
        assert!(found("services/x.rs", bad) > 0, "{bad}");
    }
    assert_eq!(found("services/x.rs", "// A line of text that is bound to end in a place."), 0);
    assert_eq!(found("services/mail/send.rs", "pub struct SendParams;"), 0);
    assert_eq!(found("services/x/seats.rs", ""), 1);
    assert_eq!(found("docs/decisions/1.md", "Rooms were replaced by services."), 0);
    assert_eq!(found("docs/decisions/1.md", "Rooms are services."), 1);
    assert_eq!(found("CHANGELOG.md", "- `aund_letters_total` is `aund_messages_total` now"), 0);
}
