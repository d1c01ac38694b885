//! The conventions of the project, as far as neither the compiler nor a lint can check them: a method has one name in all its places,
//! no service depends on another, modules have no cycles, types have unique names, words are the protocol's, documents name real files,
//! and no folder is too full.

mod cycles;
mod documents;
mod folders;
mod manifests;
mod namespaces;
mod rust;
mod source;
mod stretches;
mod types;
mod words;

use proto_schemas::{Code, codes};
use rust::{RustFile, rust_files};
use source::{SourceFile, file, files};

/// Methods the gateway answers by itself, because they are about the connection or about all services together.
const ANSWERED_BY_THE_GATEWAY: [&str; 8] = [
    "auth.connect",
    "meta.ping",
    "meta.status",
    "meta.account",
    "meta.capabilities",
    "meta.trust_roots",
    "rpc.discover",
    "notification/route",
];

fn gateway_sources() -> impl Iterator<Item = &'static RustFile> {
    rust_files("gateway/src").filter(|rust| !rust.is_test())
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

#[test]
fn every_method_of_a_service_has_its_file() {
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
            assert!(
                gateway_sources().any(|rust| rust.has_literal(method.name)),
                "nothing reads {}",
                method.name
            );
        }
    }
}

#[test]
fn what_the_gateway_answers_itself_is_in_its_sources() {
    for name in ANSWERED_BY_THE_GATEWAY {
        assert!(proto_schemas::find(name).is_some(), "{name} has no schema");
        assert!(gateway_sources().any(|rust| rust.has_literal(name)), "nothing answers {name}");
    }
}

#[test]
fn services_open_no_socket_and_certs_reads_no_file_and_no_clock() {
    for rust in rust_files("services").filter(|rust| !rust.is_test()) {
        assert!(!rust.names_path(&["tokio", "net"]), "{} opens a socket", rust.file.path);
    }
    for rust in rust_files("certs/src").filter(|rust| !rust.is_test()) {
        for path in [["std", "fs"], ["std", "env"], ["time", "SystemTime"]] {
            assert!(!rust.names_path(&path), "{} knows {path:?}", rust.file.path);
        }
    }
}

/// They are a part of the crate of the binary, and have its dependencies.
#[test]
fn no_integration_test_knows_the_inside_of_the_server() {
    let is_own = |file: &SourceFile| !file.is_below("tests/fuzz") && !file.is_below("tests/agui");
    for rust in rust_files("tests").filter(|rust| is_own(rust.file)) {
        for module in rust.whole.each() {
            let inside = |path: &&Vec<String>| {
                ["kernel", "gateway"].contains(&path[0].as_str()) || path[0].starts_with("service_")
            };
            assert_eq!(module.paths.iter().find(inside), None, "{} knows it", rust.file.path);
        }
    }
}

#[test]
fn every_error_of_the_table_is_used() {
    let is_used = |code: &&Code| {
        let path: Vec<&str> = ["codes"].into_iter().chain(code.namespace).chain([code.name]).collect();
        let mut sources = rust_files("services").chain(gateway_sources());
        sources.any(|rust| rust.names_path(&path))
    };
    let unused: Vec<&Code> =
        codes::ALL.iter().filter(|code| !code.reserved).filter(|code| !is_used(code)).collect();
    assert!(unused.is_empty(), "nothing answers {unused:?}");
}

#[test]
fn every_code_has_a_row_that_says_which_test_produces_it() {
    let list = &file("tests/main.rs").expect("the table of codes").text;
    for code in codes::ALL.iter().filter(|code| !code.reserved) {
        // The errors that a namespace adds are in a table of its own tests.
        let own =
            proto_schemas::namespaces().iter().map(|namespace| format!("tests/{}/mod.rs", namespace.name));
        let own = own.filter_map(|path| file(&path)).map(|file| &file.text);
        let (name, number) = (code.name, code.code.to_string());
        let found = own.chain([list]).any(|table| table.contains(&number));
        assert!(
            found,
            "{name} {number} is neither in the table of tests/main.rs nor in that of a namespace's tests"
        );
    }
    for code in [
        "1003", "1007", "1008", "1009", "1012", "1013", "4001", "4003", "4008", "4009", "4010", "4011",
        "4012", "4013", "4014", "4015",
    ] {
        assert!(list.contains(code), "the close code {code} is not in the table of tests/main.rs");
    }
}

/// By default a case that failed is kept in a folder beside the crate, where Cargo looks for services and finds no manifest.
#[test]
fn property_tests_of_services_keep_their_failed_cases_beside_them() {
    for rust in rust_files("services").filter(|rust| !rust.file.is_below("services/testing")) {
        for module in rust.whole.each().filter(|module| module.macros.contains("proptest")) {
            assert!(module.idents.contains("cases"), "{} needs testing::cases", rust.file.path);
        }
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_just_allowed() {
    for rust in rust_files("") {
        let silences = rust.whole.each().any(|module| module.attributes.contains("allow"));
        assert!(!silences, "{} silences a lint", rust.file.path);
    }
}
