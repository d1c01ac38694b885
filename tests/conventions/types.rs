//! A type's name is unique in the workspace, unless it is the same idea in each place.

use std::collections::BTreeMap;

use super::rust::rust_files;
use super::source::files;

/// Names that several areas may have, and why.
const SHARED: [(&str, &str); 3] = [
    ("Error", "each namespace has its own, with one match from variant to code"),
    ("Settings", "each namespace has its own table of `aund.toml`"),
    ("Store", "each namespace has its own database"),
];

/// `requests/ca/lookup.rs` declares `GetCert`, the call `ca.get_cert`. It is written with its namespace, as `ca::GetCert`, so
/// another namespace may have a call of that name, and a service a type.
fn is_call(name: &str, path: &str) -> bool {
    let Some(path) = path.strip_prefix("proto-schemas/src/requests/") else { return false };
    let namespace = path.split(['/', '.']).next().unwrap_or_default();
    let schemas = files("proto-schemas", ".json");
    let mut schemas = schemas.filter_map(|file| file.path.strip_prefix("proto-schemas/")?.split_once('/'));
    schemas.any(|(folder, file)| folder == namespace && camel(file, ".json") == name)
}

/// `renew_cert.rs` may declare `RenewCertParams` beside the file of that name in another namespace.
fn is_of_method(name: &str, path: &str) -> bool {
    name.strip_suffix("Params") == Some(camel(path, ".rs").as_str())
}

/// `RenewCert` of `ca/renew_cert.rs`.
fn camel(path: &str, end: &str) -> String {
    let stem = path.rsplit('/').next().and_then(|file| file.strip_suffix(end)).unwrap_or_default();
    stem.split('_').filter_map(|word| Some(word.get(..1)?.to_ascii_uppercase() + &word[1..])).collect()
}

#[test]
fn type_names_are_unique_in_the_workspace() {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rust in rust_files("") {
        let path = rust.file.path.as_str();
        let declared = rust.whole.each().flat_map(|module| &module.types);
        for name in declared.filter(|name| !is_call(name, path)) {
            places.entry(name).or_default().push(path);
        }
    }
    assert!(places.len() > 200, "only {} types were found", places.len());
    places.retain(|name, paths| {
        let shared = SHARED.iter().any(|(shared, _)| shared == name);
        paths.len() > 1 && !shared && !paths.iter().all(|path| is_of_method(name, path))
    });
    let lines: Vec<String> =
        places.iter().map(|(name, paths)| format!("{name}: {}", paths.join(", "))).collect();
    assert!(lines.is_empty(), "{} names are used for several types:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn names_of_calls_and_of_their_parameters_may_come_again() {
    assert!(is_of_method("RenewCertParams", "services/ca/renew_cert.rs"));
    assert!(!is_of_method("RenewCertParams", "services/ca/renew.rs"));
    assert!(is_call("GetCert", "proto-schemas/src/requests/ca/lookup.rs"));
    assert!(is_call("Pull", "proto-schemas/src/requests/message/v2.rs"));
    assert!(!is_call("Pull", "proto-schemas/src/requests/ca/lookup.rs"));
    assert!(!is_call("GetCert", "services/ca/lookup.rs"));
}
