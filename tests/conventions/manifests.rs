//! Which crates know which, as their manifests say. Cargo forbids a circle; that services stay apart, and that the contract knows
//! nobody, only this does.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::source::{SourceFile, file, files};

/// The crates of ours that a crate may know. Every service has the same row, and `aund` may know all.
const MAY_KNOW: [(&str, &[&str]); 13] = [
    ("proto-schemas", &[]),
    ("ag-ui", &[]),
    ("manifest", &[]),
    ("outbound", &[]),
    ("certs", &[]),
    ("kernel", &["certs", "proto-schemas"]),
    ("service-", &["ag-ui", "certs", "kernel", "manifest", "outbound", "proto-schemas"]),
    (
        "testing",
        &[
            "certs",
            "kernel",
            "proto-schemas",
            "service-agent",
            "service-auth",
            "service-ca",
            "service-message",
        ],
    ),
    ("gateway", &["certs", "kernel", "outbound", "proto-schemas"]),
    ("client", &["certs", "manifest", "outbound", "proto-schemas"]),
    ("bench", &["certs", "client"]),
    ("runner", &["client", "proto-schemas"]),
    ("test-modules", &[]),
];

/// Crates of others that some of ours have no use for: services bind no port, and the gateway keeps nothing.
const MUST_NOT_KNOW: [(&str, &[&str]); 6] = [
    ("kernel", &["hyper", "tokio-tungstenite", "tokio-rustls"]),
    ("service-", &["hyper", "tokio-tungstenite", "tokio-rustls"]),
    ("certs", &["tokio"]),
    ("proto-schemas", &["tokio"]),
    ("gateway", &["sqlx"]),
    ("aund", &["sqlx"]),
];

/// A crate of the workspace.
pub struct CrateManifest {
    pub file: &'static SourceFile,
    pub package: String,
    table: Table,
}

/// The crates of the workspace. The fuzz targets are a workspace of their own.
pub fn manifests() -> Vec<CrateManifest> {
    let files = files("", "Cargo.toml");
    let files = files.filter(|file| !file.is_below("tests/fuzz") && !file.is_below("tests/agui"));
    files.filter_map(CrateManifest::read).collect()
}

/// The first file of every library, binary and named test of the workspace, with a name to show.
pub fn targets() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for manifest in manifests() {
        let path_of = |target: &Value| target.get("path").and_then(Value::as_str).map(str::to_owned);
        let listed = |kind: &str| manifest.table.get(kind).and_then(Value::as_array).into_iter().flatten();
        let library = manifest.table.get("lib").and_then(path_of).unwrap_or_else(|| "src/lib.rs".to_owned());
        let others = listed("bin").chain(listed("test")).filter_map(path_of);
        for path in others.chain([library]) {
            let first = joined(manifest.file.folder(), &path);
            if file(&first).is_some() {
                found.push((format!("{} ({path})", manifest.package), first));
            }
        }
    }
    found
}

impl CrateManifest {
    /// None for the workspace, which is no crate.
    fn read(file: &'static SourceFile) -> Option<CrateManifest> {
        let table: Table = toml::from_str(&file.text).expect("a manifest is TOML");
        let package = table.get("package")?.get("name")?.as_str()?.to_owned();
        Some(CrateManifest { file, package, table })
    }

    fn names(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.table.get(kind).and_then(Value::as_table).into_iter().flat_map(Table::keys).map(String::as_str)
    }

    /// What stands in a list for this crate.
    fn row(&self, list: &[(&str, &'static [&'static str])]) -> Option<&'static [&'static str]> {
        let is_row =
            |name: &str| name == self.package || name.ends_with('-') && self.package.starts_with(name);
        list.iter().find(|(name, _)| is_row(name)).map(|(_, known)| *known)
    }

    /// Dependencies that are against the lists. `ours` are the crates of the workspace.
    fn flaws(&self, ours: &BTreeSet<&str>) -> Vec<String> {
        let may_know = self.row(&MAY_KNOW);
        let must_not = self.row(&MUST_NOT_KNOW).unwrap_or_default();
        let shipped = self.names("dependencies").chain(self.names("build-dependencies"));
        // The tests of a crate have the world of the services, and with it what they need of certificates.
        let of_tests = self.names("dev-dependencies").filter(|name| !["testing", "certs"].contains(name));
        let refused = shipped.chain(of_tests).filter(|name| {
            let unknown = ours.contains(name) && may_know.is_some_and(|known| !known.contains(name));
            unknown || must_not.contains(name)
        });
        refused.map(|name| format!("{} must not depend on {name}", self.package)).collect()
    }
}

/// `a/b` and `../c` are `a/c`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn crates_know_each_other_in_one_direction_and_no_service_another() {
    let manifests = manifests();
    let ours: BTreeSet<&str> = manifests.iter().map(|manifest| manifest.package.as_str()).collect();
    assert!(ours.len() > 10, "there are crates: {ours:?}");
    let without_row = manifests.iter().filter(|manifest| manifest.row(&MAY_KNOW).is_none());
    let without_row: Vec<&str> = without_row.map(|manifest| manifest.package.as_str()).collect();
    assert_eq!(without_row, ["aund"], "every other crate says here what it may know");
    let flaws: Vec<String> = manifests.iter().flat_map(|manifest| manifest.flaws(&ours)).collect();
    assert!(flaws.is_empty(), "{flaws:#?}");
}

#[test]
fn a_dependency_against_the_lists_is_found() {
    let flaws = |package: &str, kind: &str, name: &str| {
        let text = format!("[package]\nname = \"{package}\"\n[{kind}]\n{name} = {{ workspace = true }}");
        let file = Box::leak(Box::new(SourceFile { path: "x/Cargo.toml".to_owned(), text }));
        let ours = ["service-ca", "kernel", "gateway", "certs", "testing", "bench"].into();
        CrateManifest::read(file).expect("a crate").flaws(&ours).len()
    };
    for (package, kind, name) in [
        ("service-auth", "dependencies", "service-ca"),
        ("service-auth", "dev-dependencies", "service-ca"),
        ("service-auth", "dependencies", "testing"),
        ("service-auth", "dependencies", "hyper"),
        ("kernel", "dependencies", "service-ca"),
        ("gateway", "dependencies", "service-ca"),
        ("gateway", "dependencies", "bench"),
        ("gateway", "dependencies", "sqlx"),
        ("client", "build-dependencies", "kernel"),
    ] {
        assert_eq!(flaws(package, kind, name), 1, "{package} {kind} {name}");
    }
    for (package, kind, name) in [
        ("service-auth", "dependencies", "kernel"),
        ("service-auth", "dev-dependencies", "testing"),
        ("service-auth", "dependencies", "sqlx"),
        ("aund", "dependencies", "service-ca"),
    ] {
        assert_eq!(flaws(package, kind, name), 0, "{package} {kind} {name}");
    }
    assert_eq!(joined("gateway/aund", "../../tests/main.rs"), "tests/main.rs");
}
