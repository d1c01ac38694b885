//! No import cycle among the modules of a crate, at any level of its module tree.
//!
//! Modules with the same parent are compared: `a` knows `b` if `a` or a module inside it names something that is defined
//! in `b` or inside it, whatever re-exports it was reached through. A module may know its own parents and children.

use std::collections::{BTreeMap, BTreeSet};

use super::manifests::targets;
use super::rust::{RustModule, rust_files};

type ModulePath = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
struct ModuleTree<'a>(BTreeMap<ModulePath, ModuleNode<'a>>);

struct ModuleNode<'a> {
    file: String,
    module: &'a RustModule,
    /// Those of its modules that have a file, or stand between its braces.
    children: BTreeSet<&'a str>,
}

/// Two modules with the same parent, the first of which knows the second, and the places where it does.
type KnownModules = BTreeMap<(String, String), BTreeSet<String>>;

impl<'a> ModuleTree<'a> {
    /// Reads a crate from its first file on.
    fn read(first: &str, files: &BTreeMap<&str, &'a RustModule>) -> ModuleTree<'a> {
        let mut tree = ModuleTree::default();
        let folder = first.rsplit_once('/').map_or("", |(folder, _)| folder);
        tree.add(Vec::new(), files[first], first, folder, files);
        tree
    }

    /// A module of a file, whose own modules are in files of a folder or between its braces.
    fn add(
        &mut self,
        path: ModulePath,
        module: &'a RustModule,
        file: &str,
        folder: &str,
        files: &BTreeMap<&str, &'a RustModule>,
    ) {
        let mut children = BTreeSet::new();
        for child in &module.modules {
            let inner = format!("{folder}/{}", child.name);
            let (file, module) = if child.is_elsewhere {
                let candidates = [format!("{inner}.rs"), format!("{inner}/mod.rs")];
                let found = candidates.into_iter().find_map(|file| Some((files.get(&*file)?, file)));
                let Some((module, file)) = found else { continue };
                (file, *module)
            } else {
                (file.to_owned(), child)
            };
            children.insert(child.name.as_str());
            let mut path = path.clone();
            path.push(child.name.clone());
            self.add(path, module, &file, &inner, files);
        }
        self.0.insert(path, ModuleNode { file: file.to_owned(), module, children });
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
                import if node.module.imports.contains_key(import) && depth < 16 => {
                    let whole = [&node.module.imports[import][..], &named[n + 1..]].concat();
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
            for named in &node.module.paths {
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

#[test]
fn no_modules_import_each_other() {
    let files = rust_files("").map(|rust| (rust.file.path.as_str(), &rust.shipped)).collect();
    let targets = targets();
    assert!(targets.len() >= 15, "every crate has a target: {targets:?}");
    let cycles: Vec<String> =
        targets.iter().flat_map(|(name, first)| ModuleTree::read(first, &files).cycles(name)).collect();
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
        let parse = |text: &str| RustModule::made_up(text, false);
        let parsed: Vec<(&str, RustModule)> = files.iter().map(|(path, text)| (*path, parse(text))).collect();
        let files = parsed.iter().map(|(path, module)| (*path, module)).collect();
        ModuleTree::read("src/lib.rs", &files).cycles("made_up")
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
