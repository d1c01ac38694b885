//! The house, as far as a machine can read it: one name in its places, walls between services, papers that name real files.

use std::fs;
use std::path::{Path, PathBuf};

/// Methods the gateway answers by itself, because they are about the connection or about all services together.
const AT_THE_GATEWAY: [&str; 7] = [
    "auth.connect",
    "meta.ping",
    "meta.status",
    "meta.capabilities",
    "meta.trust_roots",
    "rpc.discover",
    "notification/route",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is inside the workspace").to_owned()
}

/// Every file below a folder whose name ends like this, with its text.
fn files(folder: &Path, end: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            let text = fs::read_to_string(&path).expect("a source is text");
            found.push((path, text));
        }
    }
    found
}

/// The part of a source that runs in production.
fn before_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn services() -> Vec<String> {
    let entries = fs::read_dir(root().join("services")).expect("there are services");
    let folders =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.join("mod.rs").exists());
    let names = folders.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    names.filter(|name| name != "kernel").collect()
}

/// What stands in quotation marks after a word, at every place in a text.
fn quoted_after<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.split(word).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_method_of_a_service_has_its_file_and_its_line_in_the_table() {
    for method in proto_schemas::methods().iter().filter(|method| !AT_THE_GATEWAY.contains(&method.name)) {
        let (namespace, verb) = method.name.split_once('.').expect("a method has a namespace");
        let service = match namespace {
            // The gateway is a namespace too: it owns the links to other domains.
            "gateway" | "federation" => root().join("gateway/src/federation"),
            _ => root().join("services").join(namespace),
        };
        let file = service.join(format!("{}.rs", verb.replace('.', "/")));
        assert!(file.exists(), "{} has no {}", method.name, file.display());
        if namespace == "federation" {
            // No service is asked: these are the frames of a link between domains, and its ends read them by name.
            let literal = format!("\"{}\"", method.name);
            let sources = files(&root().join("gateway/src"), ".rs");
            assert!(
                sources.iter().any(|(_, text)| before_tests(text).contains(&literal)),
                "nobody reads {literal}"
            );
            continue;
        }
        let table = fs::read_to_string(service.join("mod.rs")).expect("a service has a table");
        assert!(
            table.contains(&format!(".method(\"{}\"", method.name)),
            "{} is not in the table of {namespace}",
            method.name
        );
    }
}

#[test]
fn every_line_in_a_table_has_its_schema() {
    for service in services() {
        let table = fs::read_to_string(root().join("services").join(&service).join("mod.rs"))
            .expect("a service has a table");
        let names = quoted_after(&table, ".method(\"");
        assert!(!names.is_empty(), "{service} serves nothing");
        for name in names {
            assert!(proto_schemas::find(name).is_some(), "{name} has no schema");
            assert!(name.starts_with(&format!("{service}.")), "{name} is in the service {service}");
        }
    }
}

#[test]
fn what_the_gateway_answers_itself_stands_in_its_sources() {
    let sources = files(&root().join("gateway/src"), ".rs");
    for name in AT_THE_GATEWAY {
        assert!(proto_schemas::find(name).is_some(), "{name} has no schema");
        let literal = format!("\"{name}\"");
        assert!(
            sources.iter().any(|(_, text)| before_tests(text).contains(&literal)),
            "nobody answers {name}"
        );
    }
}

#[test]
fn no_service_imports_another() {
    let services = services();
    for service in &services {
        for (path, text) in files(&root().join("services").join(service), ".rs") {
            for other in services.iter().filter(|other| *other != service) {
                for way in [
                    format!("crate::{other}::"),
                    format!("crate::{{{other}"),
                    format!("super::super::{other}"),
                ] {
                    assert!(!text.contains(&way), "{} imports {other}", path.display());
                }
            }
        }
    }
}

#[test]
fn services_know_no_sockets_and_the_gateway_knows_no_sql() {
    for (path, text) in files(&root().join("services"), ".rs") {
        for word in ["tokio::net", "TcpListener", "tungstenite", "hyper::"] {
            assert!(!text.contains(word), "{} knows {word}", path.display());
        }
    }
    let bench = root().join("gateway/src/bench");
    for (path, text) in files(&root().join("gateway/src"), ".rs") {
        // The bench holds the server against bare SQL.
        assert!(path.starts_with(&bench) || !text.contains("sqlx"), "{} knows the store", path.display());
    }
    for (path, text) in files(&root().join("certs/src"), ".rs") {
        for word in ["SystemTime", "std::fs", "std::env"] {
            assert!(!before_tests(&text).contains(word), "{} knows {word}", path.display());
        }
    }
}

#[test]
fn no_test_knows_our_modules() {
    for (path, text) in files(&root().join("tests"), ".rs") {
        if path.starts_with(root().join("tests/fuzz")) {
            continue;
        }
        for module in ["services", "gateway"] {
            let (import, path_to) = (format!("use {module}{}", "::"), format!(" {module}{}", "::"));
            assert!(
                !text.contains(&import) && !text.contains(&path_to),
                "{} imports {module}",
                path.display()
            );
        }
    }
}

#[test]
fn every_error_of_the_table_is_used() {
    let mut sources = files(&root().join("services"), ".rs");
    sources.extend(files(&root().join("gateway/src"), ".rs"));
    let table = proto_schemas::errors().as_object().expect("a table");
    let unused: Vec<&String> = table
        .keys()
        .filter(|name| {
            let constant = format!("codes::{name}");
            !sources.iter().any(|(_, text)| before_tests(text).contains(&constant))
        })
        .collect();
    assert!(unused.is_empty(), "nobody answers {unused:?}");
}

#[test]
fn every_test_is_in_the_list_and_every_code_has_its_line() {
    let list = fs::read_to_string(root().join("tests/main.rs")).expect("the list of integration tests");
    for entry in fs::read_dir(root().join("tests")).expect("there are integration tests") {
        let path = entry.expect("an entry").path();
        let Some(name) =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".rs"))
        else {
            continue;
        };
        assert!(name == "main" || list.contains(&format!("\nmod {name};")), "{name} is told nowhere");
    }
    let table = proto_schemas::errors().as_object().expect("a table");
    for (name, row) in table {
        assert!(
            list.contains(&row["code"].to_string()),
            "{name} {} is not in the table of tests/main.rs",
            row["code"]
        );
    }
    for code in [
        "1003", "1007", "1008", "1009", "1012", "1013", "4001", "4003", "4008", "4009", "4010", "4011",
        "4012", "4013", "4014", "4015",
    ] {
        assert!(list.contains(code), "the close code {code} is not in the table of tests/main.rs");
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_just_allowed() {
    for folder in ["services", "gateway/src", "certs/src", "proto-schemas/src", "tests"] {
        for (path, text) in files(&root().join(folder), ".rs") {
            let (outer, inner) = (format!("#[{}(", "allow"), format!("#![{}(", "allow"));
            assert!(!text.contains(&outer) && !text.contains(&inner), "{} silences a lint", path.display());
        }
    }
}

#[test]
fn papers_name_real_files() {
    for paper in ["README.md", "docs/architecture.md", "docs/operations.md", "docs/federation.md"] {
        let Ok(text) = fs::read_to_string(root().join(paper)) else { continue };
        for named in paths_in(&text) {
            assert!(root().join(named).exists(), "{paper} names {named}, which does not exist");
        }
    }
}

/// The paths of the workspace that stand in backticks or behind a link.
fn paths_in(text: &str) -> Vec<&str> {
    const OURS: [&str; 7] = ["docs/", "gateway/", "services/", "certs/", "proto-schemas/", "tests/", ".ci/"];
    let ticked = text.split('`').skip(1).step_by(2);
    let linked = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let plain =
        |path: &&str| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
    ticked
        .chain(linked)
        .filter(|path| OURS.iter().any(|folder| path.starts_with(folder)))
        .filter(plain)
        .collect()
}
