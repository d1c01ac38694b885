//! No import cycle among the modules of a crate, at any level of its module tree.
//!
//! Modules with the same parent are compared: `a` knows `b` if `a` or a module inside it names something that is defined
//! in `b` or inside it, whatever re-exports it was reached through. A module may know its own parents and children.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{code, end_of_group, file, files, repository, tokens, without_tests};

type ModulePath = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
struct ModuleTree(BTreeMap<ModulePath, ModuleNode>);

#[derive(Default)]
struct ModuleNode {
    file: String,
    children: BTreeSet<String>,
    /// What an import makes known under a name, here and to the modules inside.
    imports: BTreeMap<String, Vec<String>>,
    /// Every path that is named.
    paths: Vec<Vec<String>>,
}

/// Two modules with the same parent, the first of which knows the second, and the places where it does.
type KnownModules = BTreeMap<(String, String), BTreeSet<String>>;

impl ModuleTree {
    /// Reads a crate from its first file on.
    fn read(first: &str, text_of: &dyn Fn(&str) -> Option<String>) -> ModuleTree {
        let mut tree = ModuleTree::default();
        let folder = first.rsplit_once('/').map_or("", |(folder, _)| folder);
        tree.add(Vec::new(), first, folder, text_of);
        tree
    }

    fn add(&mut self, path: ModulePath, file: &str, folder: &str, text_of: &dyn Fn(&str) -> Option<String>) {
        let text = text_of(file).unwrap_or_else(|| panic!("{file} is missing"));
        let code = code(&text);
        self.add_body(path, file, folder, &without_tests(&tokens(&code)), text_of);
    }

    /// The items of a module, in a file of its own or between braces.
    fn add_body(
        &mut self,
        path: ModulePath,
        file: &str,
        folder: &str,
        body: &[&str],
        text_of: &dyn Fn(&str) -> Option<String>,
    ) {
        let mut node = ModuleNode { file: file.to_owned(), ..ModuleNode::default() };
        let mut at = 0;
        while at < body.len() {
            match &body[at..] {
                ["use", ..] => {
                    let end =
                        at + body[at..].iter().position(|token| *token == ";").unwrap_or(body.len() - at);
                    for (name, used) in use_tree(&body[at + 1..end]) {
                        node.imports.insert(name, used.clone());
                        node.paths.push(used);
                    }
                    at = end;
                }
                ["mod", name, opening @ (";" | "{"), ..] => {
                    let (child, inner) = ([&path[..], &[(*name).to_owned()]].concat(), join(folder, name));
                    if *opening == "{" {
                        let end = end_of_group(body, at + 2);
                        self.add_body(child, file, &inner, &body[at + 3..end - 1], text_of);
                        node.children.insert((*name).to_owned());
                        at = end;
                        continue;
                    }
                    let candidates = [format!("{inner}.rs"), format!("{inner}/mod.rs")];
                    if let Some(file) = candidates.into_iter().find(|file| text_of(file).is_some()) {
                        self.add(child, &file, &inner, text_of);
                        node.children.insert((*name).to_owned());
                    }
                    at += 2;
                }
                [_, "::", ..] if at == 0 || ![".", "::"].contains(&body[at - 1]) => {
                    let mut named = vec![body[at].to_owned()];
                    while let ["::", next, ..] = &body[at + 1..] {
                        if !next.starts_with(|first: char| first.is_alphabetic() || first == '_') {
                            break;
                        }
                        named.push((*next).to_owned());
                        at += 2;
                    }
                    node.paths.push(named);
                }
                _ => {}
            }
            at += 1;
        }
        self.0.insert(path, node);
    }

    /// The module that defines what a path names, seen from a module; none where it is in another crate.
    fn definer(&self, from: &[String], named: &[String], depth: usize) -> Option<ModulePath> {
        let mut at = from.to_vec();
        for (n, segment) in named.iter().enumerate() {
            let node = &self.0[&at];
            match segment.as_str() {
                "crate" => at.clear(),
                "super" => drop(at.pop()),
                "self" | "*" => {}
                child if node.children.contains(child) => at.push(child.to_owned()),
                import if node.imports.contains_key(import) && depth < 16 => {
                    let whole = [&node.imports[import][..], &named[n + 1..]].concat();
                    // An import of the name itself, such as `use serde;`, leads nowhere else.
                    let leads_on = whole != named[n..];
                    return leads_on.then(|| self.definer(&at, &whole, depth + 1)).flatten();
                }
                _ if n == 0 => return None,
                _ => return Some(at),
            }
        }
        Some(at)
    }

    /// Which modules know which, for each parent.
    fn known(&self) -> BTreeMap<ModulePath, KnownModules> {
        let mut known: BTreeMap<ModulePath, KnownModules> = BTreeMap::new();
        for (path, node) in &self.0 {
            for named in &node.paths {
                let Some(definer) = self.definer(path, named, 0) else { continue };
                let common = path.iter().zip(&definer).take_while(|(a, b)| a == b).count();
                if common == path.len() || common == definer.len() {
                    continue;
                }
                let pair = (path[common].clone(), definer[common].clone());
                let place = format!("{} names {}", node.file, named.join("::"));
                known.entry(path[..common].to_vec()).or_default().entry(pair).or_default().insert(place);
            }
        }
        known
    }

    /// Modules that know each other, each group in words.
    fn cycles(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (parent, known) in self.known() {
            for group in groups(&known) {
                let whole = [&[name.to_owned()], &parent[..]].concat().join("::");
                let mut words = format!("{whole}: {} modules know each other", group.len());
                words += &format!(" ({})", group.iter().cloned().collect::<Vec<_>>().join(", "));
                for ((a, b), places) in &known {
                    if group.contains(a) && group.contains(b) {
                        let places: Vec<&str> = places.iter().take(3).map(String::as_str).collect();
                        words += &format!("\n    {a} -> {b}: {}", places.join("; "));
                    }
                }
                found.push(words);
            }
        }
        found
    }
}

/// The names that an import makes known, each with its whole path. A glob is known as `*` of its module.
fn use_tree(tree: &[&str]) -> Vec<(String, Vec<String>)> {
    let Some(open) = tree.iter().position(|token| *token == "{") else {
        let (path, name) = match tree.iter().position(|token| *token == "as") {
            Some(renamed) => (&tree[..renamed], tree.get(renamed + 1).copied()),
            None => (tree, None),
        };
        let mut path: Vec<String> =
            path.iter().filter(|token| **token != "::").map(|token| (*token).to_owned()).collect();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let Some(last) = path.last().cloned() else { return Vec::new() };
        let name = if last == "*" { path.join("::") } else { name.map_or(last, str::to_owned) };
        return vec![(name, path)];
    };
    let inside = &tree[open + 1..tree.len() - 1];
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for at in 0..=inside.len() {
        match inside.get(at) {
            Some(&"{") => depth += 1,
            Some(&"}") => depth -= 1,
            Some(&",") | None if depth == 0 => {
                found.extend(use_tree(&[&tree[..open], &inside[begin..at]].concat()));
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The strongly connected components of more than one module.
fn groups(known: &KnownModules) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            for (_, b) in known.keys().filter(|(a, _)| *a == module) {
                if seen.insert(b.clone()) {
                    next.push(b.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = known.keys().map(|(a, _)| (a, reach(a))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (a, there) in &reached {
        let back = |b: &&String| reached.get(b).is_some_and(|there| there.contains(*a));
        let group: BTreeSet<String> = there.iter().filter(back).cloned().collect();
        if group.len() > 1 && !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The first file of every library and of every test target of the workspace, with a name to show.
fn crates() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for manifest in files("", "Cargo.toml").filter(|file| !file.path.starts_with("tests/")) {
        let settings: toml::Table = toml::from_str(&manifest.text).expect("a manifest is TOML");
        let Some(name) = settings.get("package").and_then(|package| package.get("name")) else { continue };
        let name = name.as_str().expect("a name is text");
        let folder = manifest.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path_of =
            |target: &toml::Value| target.get("path").and_then(|path| path.as_str()).map(str::to_owned);
        let library = settings.get("lib").and_then(path_of).unwrap_or_else(|| "src/lib.rs".to_owned());
        let tests = settings.get("test").and_then(|tests| tests.as_array()).into_iter().flatten();
        let targets = tests.filter_map(|test| Some((format!("{name} tests"), path_of(test)?)));
        for (name, path) in targets.chain([(name.to_owned(), library)]) {
            let first = match path.strip_prefix("../") {
                Some(beside) => beside.to_owned(),
                None => join(folder, &path),
            };
            if file(&first).is_some() {
                found.push((name, first));
            }
        }
    }
    found
}

#[test]
fn no_modules_import_each_other() {
    let crates = crates();
    assert!(crates.len() >= 5, "every crate has a library: {crates:?}");
    let texts: BTreeMap<&str, &str> =
        repository().iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let text_of = |path: &str| texts.get(path).map(|text| (*text).to_owned());
    let cycles: Vec<String> =
        crates.iter().flat_map(|(name, first)| ModuleTree::read(first, &text_of).cycles(name)).collect();
    assert!(
        cycles.is_empty(),
        "{} groups of modules import each other:\n{}",
        cycles.len(),
        cycles.join("\n")
    );
}

#[test]
fn a_cycle_is_found_wherever_it_hides() {
    let tree = |files: &[(&str, &str)]| {
        let files: BTreeMap<String, String> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        ModuleTree::read("src/lib.rs", &move |path: &str| files.get(path).cloned()).cycles("made_up")
    };
    let root = ("src/lib.rs", "mod a; mod b; pub use b::Thing; // mod c;");
    let none = [
        root,
        (
            "src/a.rs",
            "use crate::b::{self, Thing}; use std::fmt; pub struct Own; #[cfg(test)] mod tests { use crate::b; }",
        ),
        (
            "src/b.rs",
            "mod c; pub use c::Thing; const A: &str = \"crate::a::Own\"; #[cfg(test)] use crate::a::Own;",
        ),
        ("src/b/c.rs", "use super::super::b; pub struct Thing; // crate::a::Own"),
    ];
    assert_eq!(tree(&none), Vec::<String>::new());

    for hidden in [
        "use crate::{a::Own as Renamed};",
        "fn f() -> super::super::a::Own { todo() }",
        "use crate::Reached;",
    ] {
        let inner = format!("{hidden} pub struct Thing;");
        let first = ("src/lib.rs", "mod a; mod b; pub use a::Own as Reached;");
        let found = tree(&[first, none[1], none[2], ("src/b/c.rs", &inner)]);
        assert_eq!(found.len(), 1, "{hidden}: {found:?}");
        assert!(found[0].starts_with("made_up: 2 modules know each other (a, b)"), "{found:?}");
        assert!(found[0].contains("b -> a: src/b/c.rs names"), "{found:?}");
    }

    let below = [
        ("src/lib.rs", "mod a;"),
        ("src/a/mod.rs", "mod c; mod d; mod e { use super::c::C; } use d::D;"),
        ("src/a/c.rs", "use super::D; pub struct C;"),
        ("src/a/d.rs", "pub struct D(super::c::C);"),
    ];
    let found = tree(&below);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("made_up::a: 2 modules know each other (c, d)"), "{found:?}");
}
