//! Documents name files and functions that exist.

use std::collections::BTreeSet;

use super::manifests::manifests;
use super::rust::{RustFile, RustModule, rust_files};
use super::source::{SourceFile, TOP, file, files, repository};

/// What a name of a file ends with, in prose.
const ENDS: [&str; 9] = [".rs", ".md", ".json", ".py", ".toml", ".sql", ".yml", ".lock", ".txt"];

/// Files of operators and agents that documents speak of.
const OTHERS: [&str; 6] = ["agent.md", "aund.toml", "tokens.json", "links.json", "auth.json", "config.toml"];

fn documents() -> Vec<&'static SourceFile> {
    let single = ["README.md", "CONTRIBUTING.md", "proto-schemas/README.md"];
    single.iter().filter_map(|path| file(path)).chain(files("docs", ".md")).collect()
}

/// The guide whose example is a namespace that does not exist, and its name.
const EXAMPLE: (&str, &str) = ("docs/adding-a-namespace.md", "note");

/// What stands in backticks, with the number of its line. Blocks of code are examples, and the history of a decision
/// may name what was replaced.
fn quoted(document: &SourceFile) -> Vec<(usize, &str)> {
    let (mut found, mut block) = (Vec::new(), false);
    for (n, line) in document.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            block = !block;
        } else if !(block || document.path.starts_with("docs/decisions/") && line.contains("replaced")) {
            let of_example = |quote: &&str| document.path == EXAMPLE.0 && quote.contains(EXAMPLE.1);
            let quotes = line.split('`').skip(1).step_by(2).filter(|quote| !of_example(quote));
            found.extend(quotes.map(|quote| (n + 1, quote)));
        }
    }
    found
}

/// The targets of links, without what is on the web.
fn linked(document: &SourceFile) -> Vec<(usize, &str)> {
    let targets = document.text.lines().enumerate().flat_map(|(n, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.map(move |target| (n + 1, target.split('#').next().unwrap_or(target)))
    });
    targets.filter(|(_, target)| !target.is_empty() && !target.contains("://")).collect()
}

/// `a/{b,c}.rs` is two paths.
fn spelt_out(path: &str) -> Vec<String> {
    let Some((begin, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((choices, end)) = rest.split_once('}') else { return vec![path.to_owned()] };
    choices.split(',').flat_map(|choice| spelt_out(&format!("{begin}{choice}{end}"))).collect()
}

fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte))
}

/// Whether a word names a file or a folder of the repository: it begins with a folder of ours, or ends like a source.
fn is_path(word: &str) -> bool {
    let below = word.split_once('/').is_some_and(|(folder, _)| TOP.contains(&folder));
    let named = ENDS.iter().any(|end| word.strip_suffix(end).is_some_and(|stem| !stem.is_empty()));
    is_plain(word) && (below || named) && !word.starts_with(['/', '.']) && !OTHERS.contains(&word)
}

/// Whether a file or a folder has this path, or a path that ends with it.
fn exists(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let (inside, at_end) = (format!("{path}/"), format!("/{path}"));
    repository().iter().any(|file| {
        file.path == path
            || file.path.starts_with(&inside)
            || file.path.ends_with(&at_end)
            || file.path.contains(&format!("{at_end}/"))
    })
}

/// Whether a file belongs to a module or a crate of this name.
fn is_in(file: &SourceFile, module: &str) -> bool {
    let mut parts = file.path.split('/');
    parts.any(|part| part.trim_end_matches(".rs").replace('-', "_") == module)
}

fn declares(rust: &RustFile, name: &str) -> bool {
    rust.whole.each().any(|module| module.items.contains(name))
}

/// Whether `parent::name` is something of ours: an item of a module, or a method or variant of a type.
fn is_defined(parent: &str, name: &str) -> bool {
    rust_files("").any(|rust| {
        let imports = |module: &RustModule| module.imports.values().flatten().any(|part| part == name);
        if is_in(rust.file, parent) {
            return declares(rust, name) || rust.whole.each().any(imports);
        }
        let mentions = || rust.whole.each().any(|module| module.idents.contains(name));
        let implements = || rust.whole.each().any(|module| module.implemented.contains(parent));
        declares(rust, parent) && mentions() || implements() && declares(rust, name)
    })
}

/// The names of crates that are not ours.
fn foreign_crates() -> BTreeSet<String> {
    let mut found: BTreeSet<String> = ["std", "core", "alloc"].map(str::to_owned).into();
    let ours: BTreeSet<String> = manifests().into_iter().map(|manifest| manifest.package).collect();
    for manifest in files("", "Cargo.toml") {
        let settings: toml::Table = toml::from_str(&manifest.text).expect("a manifest is TOML");
        let workspace = settings.get("workspace").and_then(|workspace| workspace.get("dependencies"));
        let tables = [workspace, settings.get("dependencies"), settings.get("dev-dependencies")];
        let names =
            tables.into_iter().flatten().filter_map(|table| table.as_table()).flat_map(|table| table.keys());
        found.extend(names.filter(|name| !ours.contains(*name)).map(|name| name.replace('-', "_")));
    }
    found
}

/// The segments of `a::b::c` or `a::b()`, where each is a name.
fn rust_path(quote: &str) -> Option<Vec<&str>> {
    let segments: Vec<&str> = quote.trim_end_matches("()").trim_end_matches('!').split("::").collect();
    let is_name = |segment: &&str| {
        !segment.is_empty() && segment.chars().all(|next| next.is_alphanumeric() || next == '_')
    };
    // `codes::NAME` stands for any of them.
    let is_one = segments.len() > 1 && segments.last() != Some(&"NAME");
    (is_one && segments.iter().all(is_name)).then_some(segments)
}

/// What is wrong with something in backticks, if anything is.
fn flaw(quote: &str, foreign: &BTreeSet<String>) -> Option<String> {
    if let Some((path, function)) = quote.split_once(".rs::") {
        let path = format!("{path}.rs");
        let function = function.trim_end_matches("()").rsplit("::").next().unwrap_or(function);
        let at_end = format!("/{path}");
        let is_named = |file: &SourceFile| file.path == path || file.path.ends_with(&at_end);
        let defined = rust_files("").filter(|rust| is_named(rust.file)).any(|rust| declares(rust, function));
        return (!defined).then(|| format!("{path} defines no {function}"));
    }
    if let Some(segments) = rust_path(quote) {
        let (name, before) = segments.split_last()?;
        let parent = before.iter().rev().find(|segment| !["self", "super", "crate"].contains(*segment))?;
        let known = foreign.contains(segments[0]) || is_defined(parent, name);
        return (!known).then(|| format!("{quote} is not defined"));
    }
    let word = quote.split([' ', ':']).next().unwrap_or(quote);
    let missing = spelt_out(word).into_iter().find(|path| is_path(path) && !exists(path));
    missing.map(|path| format!("{path} does not exist"))
}

#[test]
fn documents_name_files_and_functions_that_exist() {
    let (documents, foreign) = (documents(), foreign_crates());
    assert!(documents.len() > 10, "there are documents");
    let mut flaws = Vec::new();
    for document in documents {
        for (line, quote) in quoted(document) {
            flaws.extend(flaw(quote, &foreign).map(|flaw| format!("{}:{line}: {flaw}", document.path)));
        }
        let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, target) in linked(document) {
            if !super::source::root().join(folder).join(target).exists() {
                flaws.push(format!("{}:{line}: the link {target} leads nowhere", document.path));
            }
        }
    }
    assert!(flaws.is_empty(), "{} names in documents are wrong:\n{}", flaws.len(), flaws.join("\n"));
}

#[test]
fn names_in_backticks_are_understood() {
    let foreign = foreign_crates();
    for good in [
        "tests/conventions/mod.rs",
        "conventions/documents.rs",
        "tests/conventions/{source,cycles}.rs",
        "tests/conventions/",
        "tests/conventions/documents.rs::spelt_out",
        "documents::flaw",
        "SourceFile",
        "tokio::spawn",
        "message.send",
        "/health",
        "a/b",
        "aund.toml",
    ] {
        assert_eq!(flaw(good, &foreign), None, "{good}");
    }
    for bad in ["tests/nothing", "nothing.rs", "a/nothing.rs", "documents.rs::nothing", "documents::nothing"]
    {
        assert!(flaw(bad, &foreign).is_some(), "{bad}");
    }
}
