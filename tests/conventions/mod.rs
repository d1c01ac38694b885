//! The conventions of the project, as far as a machine can check them: a method has one name in all its places, services
//! do not import each other, modules have no cycles, types have unique names, words are the protocol's, and documents
//! name real files.

mod cycles;
mod documents;
mod namespaces;
mod source;
mod types;
mod words;

use source::{SourceFile, file, files};

/// Methods the gateway answers by itself, because they are about the connection or about all services together.
const ANSWERED_BY_THE_GATEWAY: [&str; 7] = [
    "auth.connect",
    "meta.ping",
    "meta.status",
    "meta.capabilities",
    "meta.trust_roots",
    "rpc.discover",
    "notification/route",
];

/// The lines of a source before its first test.
fn before_tests(file: &SourceFile) -> &str {
    file.text.split("#[cfg(test)]").next().unwrap_or(&file.text)
}

fn gateway_sources() -> impl Iterator<Item = &'static SourceFile> {
    files("gateway/src", ".rs")
}

fn services() -> Vec<&'static str> {
    let folders = files("services", "/lib.rs").filter_map(|file| {
        let folder = file.path.strip_prefix("services/")?.strip_suffix("/lib.rs")?;
        (!folder.contains('/')).then_some(folder)
    });
    let services: Vec<&str> = folders.filter(|name| !["kernel", "testing"].contains(name)).collect();
    assert!(services.len() >= 4, "{services:?}");
    services
}

/// The method table of a service.
fn table(folder: &str) -> &'static str {
    let found = ["lib.rs", "mod.rs"].iter().find_map(|name| file(&format!("{folder}/{name}")));
    &found.unwrap_or_else(|| panic!("{folder} has no lib.rs")).text
}

/// What stands in quotation marks after a word, at every place in a text.
fn quoted_after<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.split(word).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_method_of_a_service_has_its_file_and_its_row_in_the_table() {
    let of_services =
        proto_schemas::methods().iter().filter(|method| !ANSWERED_BY_THE_GATEWAY.contains(&method.name));
    for method in of_services {
        let (namespace, verb) = method.name.split_once('.').expect("a method has a namespace");
        let folder = match namespace {
            // The gateway is a namespace too: it owns the links to other domains.
            "gateway" | "federation" => "gateway/src/federation".to_owned(),
            _ if method.namespace.service == namespace => format!("services/{namespace}"),
            // A service of several namespaces has a folder for each but its own.
            _ => format!("services/{}/{namespace}", method.namespace.service),
        };
        let path = format!("{folder}/{}.rs", verb.replace('.', "/"));
        // The gateway's own methods stand in folders by subject.
        let name = format!("/{verb}.rs");
        let found = file(&path).is_some() || files(&folder, &name).next().is_some();
        assert!(found, "{} has no {path}", method.name);
        if namespace == "federation" {
            // No service is called: these are the frames of a link between domains, and its ends read them by name.
            let literal = format!("\"{}\"", method.name);
            assert!(
                gateway_sources().any(|file| before_tests(file).contains(&literal)),
                "nothing reads {literal}"
            );
            continue;
        }
        assert!(
            table(&folder).contains(&format!(".method(\"{}\"", method.name)),
            "{} is not in the table of {namespace}",
            method.name
        );
    }
}

#[test]
fn every_row_of_a_table_has_its_schema() {
    for service in services() {
        let names = quoted_after(table(&format!("services/{service}")), ".method(\"");
        assert!(!names.is_empty(), "{service} serves nothing");
        for name in names {
            let method = proto_schemas::find(name).unwrap_or_else(|| panic!("{name} has no schema"));
            assert_eq!(method.namespace.service, service, "{name} is in the service {service}");
        }
    }
}

#[test]
fn what_the_gateway_answers_itself_is_in_its_sources() {
    for name in ANSWERED_BY_THE_GATEWAY {
        assert!(proto_schemas::find(name).is_some(), "{name} has no schema");
        let literal = format!("\"{name}\"");
        assert!(
            gateway_sources().any(|file| before_tests(file).contains(&literal)),
            "nothing answers {name}"
        );
    }
}

#[test]
fn no_service_depends_on_another_and_the_gateway_on_none() {
    let services = services();
    let manifests = services.iter().map(|service| format!("services/{service}/Cargo.toml"));
    for path in manifests.chain(["gateway/Cargo.toml".to_owned(), "services/kernel/Cargo.toml".to_owned()]) {
        let manifest = file(&path).unwrap_or_else(|| panic!("{path} is missing"));
        let settings: toml::Table = toml::from_str(&manifest.text).expect("a manifest is TOML");
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let names = settings.get(table).and_then(|table| table.as_table()).into_iter().flatten();
            let other = names.map(|(name, _)| name).find(|name| name.starts_with("service-"));
            assert_eq!(other, None, "{path} depends on a service");
        }
    }
}

#[test]
fn services_know_no_sockets_and_the_gateway_knows_no_sql() {
    for file in files("services", ".rs") {
        for word in ["tokio::net", "TcpListener", "tungstenite", "hyper::"] {
            assert!(!file.text.contains(word), "{} knows {word}", file.path);
        }
    }
    for file in gateway_sources().chain(files("gateway/aund/src", ".rs")) {
        assert!(!file.text.contains("sqlx"), "{} knows the store", file.path);
    }
    for file in files("certs/src", ".rs") {
        for word in ["SystemTime", "std::fs", "std::env"] {
            assert!(!before_tests(file).contains(word), "{} knows {word}", file.path);
        }
    }
}

#[test]
fn the_client_knows_the_contract_and_certificates_and_nothing_of_the_server() {
    for crate_name in ["kernel", "gateway"] {
        let (import, path_to) = (format!("use {crate_name}::"), format!(" {crate_name}::"));
        for file in files("client", ".rs") {
            let knows = file.text.contains(&import) || file.text.contains(&path_to);
            assert!(!knows, "{} imports {crate_name}", file.path);
        }
        let dependency = format!("\n{crate_name} = ");
        for manifest in files("client", "Cargo.toml") {
            assert!(!manifest.text.contains(&dependency), "{} depends on {crate_name}", manifest.path);
        }
    }
}

#[test]
fn no_test_knows_our_modules() {
    for file in files("tests", ".rs").filter(|file| !file.path.starts_with("tests/fuzz/")) {
        for module in ["kernel", "gateway"] {
            let (import, path_to) = (format!("use {module}{}", "::"), format!(" {module}{}", "::"));
            let knows = file.text.contains(&import) || file.text.contains(&path_to);
            assert!(!knows, "{} imports {module}", file.path);
        }
    }
}

#[test]
fn every_error_of_the_table_is_used() {
    let sources: Vec<&str> = files("services", ".rs").chain(gateway_sources()).map(before_tests).collect();
    let table = proto_schemas::errors().as_object().expect("a table");
    let is_used = |name: &str| {
        let constant = format!("codes::{name}");
        sources.iter().any(|text| text.contains(&constant))
    };
    let unused: Vec<&String> = table.keys().filter(|name| !is_used(name)).collect();
    assert!(unused.is_empty(), "nothing answers {unused:?}");
}

#[test]
fn every_test_is_in_the_list_and_every_code_has_its_row() {
    let list = &file("tests/main.rs").expect("the list of integration tests").text;
    for file in files("tests", ".rs") {
        let name = file.path.strip_prefix("tests/").and_then(|name| name.strip_suffix(".rs"));
        let Some(name) = name.filter(|name| !name.contains('/')) else { continue };
        assert!(name == "main" || list.contains(&format!("\nmod {name};")), "{name} is not in tests/main.rs");
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
    for file in files("", ".rs") {
        let (outer, inner) = (format!("#[{}(", "allow"), format!("#![{}(", "allow"));
        assert!(!file.text.contains(&outer) && !file.text.contains(&inner), "{} silences a lint", file.path);
    }
}
