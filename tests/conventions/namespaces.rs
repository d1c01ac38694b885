//! A namespace owns everything of its own: the gateway names none but those without which nobody gets in, and its own.

use super::rust::{RustModule, rust_files};
use super::source::file;
use super::{gateway_sources, services};
use proto_schemas::{Namespace, namespaces};

/// What the gateway may name: its own namespaces, and the two without which nobody gets in.
const KNOWN_TO_THE_GATEWAY: [&str; 7] =
    ["auth", "ca", "meta", "rpc", "gateway", "federation", "notification"];

fn others() -> impl Iterator<Item = &'static Namespace> {
    namespaces().iter().filter(|namespace| !KNOWN_TO_THE_GATEWAY.contains(&namespace.name))
}

/// Whether a string literal names a method, an event or a tag of the namespace. Its bare name may be an English word, or a
/// member of JSON-RPC.
fn literal_names(literal: &str, namespace: &Namespace) -> bool {
    let text = literal.strip_prefix("event/").unwrap_or(literal);
    let is_name = |rest: &str| {
        !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase() || b"_.0123456789".contains(&b))
    };
    let dotted =
        text.strip_prefix(namespace.name).and_then(|rest| rest.strip_prefix('.')).is_some_and(is_name);
    // A file name is no method.
    let file = [".rs", ".json", ".toml", ".db", ".md"].iter().any(|end| text.ends_with(end));
    (dotted && !file) || namespace.tags.iter().any(|tag| tag.name == text)
}

/// Whether code asks about the namespace by name, or imports its request types.
fn code_names(module: &RustModule, namespace: &Namespace) -> bool {
    const QUESTIONS: [&str; 7] = ["has", "knows", "losses", "tally", "remove", "find_namespace", "runs"];
    let asked = |(function, name): &(String, String)| {
        QUESTIONS.contains(&function.as_str()) && name == namespace.name
    };
    module.calls.iter().any(asked) || module.names_path(&["requests", namespace.name])
}

#[test]
fn the_gateway_names_no_namespace_but_its_own_and_those_of_login() {
    let mut named = Vec::new();
    for rust in gateway_sources() {
        for (module, namespace) in rust.shipped.each().flat_map(|module| others().map(move |n| (module, n))) {
            let found = module.literals.iter().find(|literal| literal_names(literal, namespace));
            if let Some(literal) = found {
                named.push(format!("{} has {literal:?}", rust.file.path));
            } else if code_names(module, namespace) {
                named.push(format!("{} names {}", rust.file.path, namespace.name));
            }
        }
    }
    assert!(named.is_empty(), "{named:#?}");
}

#[test]
fn a_namespace_that_is_named_is_found() {
    let message = others().find(|namespace| namespace.name == "message").expect("there are messages");
    for literal in ["message.send", "event/message.ack", "ns_message", "message.v2.pull"] {
        assert!(literal_names(literal, message), "{literal}");
    }
    for literal in ["message", "message.toml", "a message.", "messages.send", "message. Then"] {
        assert!(!literal_names(literal, message), "{literal}");
    }
    let names = |text: &str| code_names(&RustModule::made_up(text, false), message);
    assert!(names("fn f() { if mesh.has(\"message\") {} }"));
    assert!(names("use proto_schemas::requests::{ca, message};"));
    assert!(!names("fn f() { let message = other::requests(); }"));
}

#[test]
fn every_namespace_has_its_service_and_every_service_its_namespace() {
    let services = services();
    for namespace in namespaces() {
        let served = namespace.service == "gateway" || services.contains(&namespace.service);
        assert!(served, "no folder has the service {} of {}", namespace.service, namespace.name);
    }
    for service in services {
        let declared = namespaces().iter().any(|namespace| namespace.service == service);
        assert!(declared, "no namespace.json names the service {service}");
        assert!(file(&format!("services/{service}/settings.rs")).is_some(), "{service} has no settings.rs");
    }
}

#[test]
fn a_namespace_that_is_told_of_sessions_has_the_methods_for_it() {
    for namespace in namespaces().iter().filter(|namespace| namespace.sessions) {
        for notice in ["session_opened", "session_resync", "session_closed"] {
            let name = format!("{}.{notice}", namespace.name);
            assert!(proto_schemas::find(&name).is_some(), "{name} has no schema");
        }
    }
}

#[test]
fn every_event_that_is_published_has_a_rule() {
    let sources = || rust_files("services").filter(|rust| !rust.is_test()).chain(gateway_sources());
    for rust in sources() {
        for literal in rust.shipped.each().flat_map(|module| &module.literals) {
            let Some(name) = literal.strip_prefix("event/") else { continue };
            // `app.` events are the clients' own, and a prefix is not a name.
            let own =
                name.starts_with("app.") || name.ends_with('.') || name.contains('{') || name.is_empty();
            let known = proto_schemas::find_event(literal).is_some();
            assert!(own || known, "{}: {literal} has no schema", rust.file.path);
        }
    }
    for event in proto_schemas::events() {
        assert!(sources().any(|rust| rust.has_literal(event.name)), "nothing publishes {}", event.name);
    }
}
