//! A namespace owns everything of its own: the gateway names none but those without which nobody gets in, and its own.

use super::source::{Stretch, code, file, files, stretches, tokens, without_tests};
use super::{before_tests, gateway_sources, services};
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
    let text = literal.trim_matches(['"', '#', 'r']);
    let text = text.strip_prefix("event/").unwrap_or(text);
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
fn code_names(text: &str, namespace: &Namespace) -> bool {
    let asked = ["has", "knows", "losses", "tally", "remove", "find_namespace", "runs"]
        .iter()
        .any(|function| text.contains(&format!("{function}(\"{}\")", namespace.name)));
    let code = code(text);
    let tokens = without_tests(&tokens(&code));
    let imported = tokens.windows(3).any(|three| three == ["requests", "::", namespace.name])
        || tokens.windows(2).any(|two| two == [namespace.name, "::"] && tokens.contains(&"requests"));
    asked || imported
}

#[test]
fn the_gateway_names_no_namespace_but_its_own_and_those_of_login() {
    let mut named = Vec::new();
    for file in gateway_sources() {
        if file.path.contains("/tests/") || file.path.ends_with("/tests.rs") {
            continue;
        }
        let text = before_tests(file);
        for namespace in others() {
            let literals = stretches(text).into_iter().filter(|(kind, _)| *kind == Stretch::Text);
            let found =
                literals.map(|(_, literal)| literal).find(|literal| literal_names(literal, namespace));
            if let Some(literal) = found {
                named.push(format!("{} has {literal}", file.path));
            } else if code_names(text, namespace) {
                named.push(format!("{} names {}", file.path, namespace.name));
            }
        }
    }
    assert!(named.is_empty(), "{named:#?}");
}

#[test]
fn a_namespace_that_is_named_is_found() {
    let message = others().find(|namespace| namespace.name == "message").expect("there are messages");
    for literal in ["\"message.send\"", "\"event/message.ack\"", "\"ns_message\"", "r#\"message.v2.pull\"#"] {
        assert!(literal_names(literal, message), "{literal}");
    }
    for literal in
        ["\"message\"", "\"message.toml\"", "\"a message.\"", "\"messages.send\"", "\"message. Then\""]
    {
        assert!(!literal_names(literal, message), "{literal}");
    }
    assert!(code_names("if mesh.has(\"message\") {}", message));
    assert!(code_names("use proto_schemas::requests::message;", message));
    assert!(!code_names("let message = 1;", message));
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
    let sources = files("services", ".rs").chain(gateway_sources());
    for file in sources.filter(|file| !file.path.contains("/tests")) {
        let literals = stretches(before_tests(file)).into_iter().filter(|(kind, _)| *kind == Stretch::Text);
        for (_, literal) in literals {
            let Some(name) = literal.trim_matches('"').strip_prefix("event/") else { continue };
            // `app.` events are the clients' own, and a prefix is not a name.
            let own =
                name.starts_with("app.") || name.ends_with('.') || name.contains('{') || name.is_empty();
            let known = proto_schemas::find_event(&format!("event/{name}")).is_some();
            assert!(own || known, "{}: event/{name} has no schema", file.path);
        }
    }
    let published = |name: &str| {
        let mut sources = files("services", ".rs").chain(gateway_sources());
        sources.any(|file| before_tests(file).contains(&format!("\"{name}\"")))
    };
    for event in proto_schemas::events() {
        assert!(published(event.name), "nothing publishes {}", event.name);
    }
}
