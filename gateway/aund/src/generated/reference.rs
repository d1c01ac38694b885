//! `docs/reference.md`: everything that the schemas, the settings and the metrics say, as tables.

use super::markdown::{quoted, table};
use super::{GeneratedFile, read, root, settings};
use proto_schemas::{Access, EventAudience, EventSchema, Method, Namespace};
use std::fs;

const INTRODUCTION: &str = "\
# Reference

Every method, event, setting and metric of this server. `tests/generate` writes this page from the schema files, the structs of the
settings and what `/metrics` prints; `aund schema` prints the methods with their parameters as an OpenRPC document.
";

pub(super) fn file(metrics: &str) -> GeneratedFile {
    let mut text = format!("{INTRODUCTION}\n## Methods and events\n");
    let mut namespaces: Vec<&Namespace> = proto_schemas::namespaces().iter().collect();
    namespaces.sort_by_key(|namespace| namespace.name);
    for namespace in namespaces {
        text +=
            &format!("\n### `{}`: {}\n\n{}", namespace.name, summary(namespace.doc()), methods(namespace));
        text += &events(namespace);
    }
    text += "\n## Settings\n\nOne `aund.toml`. `aund check` prints every setting with its value. Those of a service are in a table of its name.\n";
    for (title, table) in settings::tables() {
        text += &format!("\n### {title}\n\n{table}");
    }
    text += &format!(
        "\n## Metrics\n\nWhat to watch, and what to do then, is in [operations](operations.md).\n\n{metrics}"
    );
    text += &format!("\n## Guides\n\n{}", guides());
    GeneratedFile { path: "docs/reference.md".to_owned(), text }
}

/// The other documents, by their titles.
fn guides() -> String {
    let files = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".md") && name != "reference.md");
    names.sort();
    let title = |name: &str| {
        read(&format!("docs/{name}")).lines().next().unwrap_or_default().trim_start_matches("# ").to_owned()
    };
    names.iter().map(|name| format!("- [{}]({name})\n", title(name))).collect()
}

fn methods(namespace: &Namespace) -> String {
    let methods = proto_schemas::methods().iter().filter(|method| method.namespace.name == namespace.name);
    let rows = methods.map(|method| {
        let http = method.http.iter().map(|route| format!("{} {}", route.method, route.path));
        [
            format!("`{}`", method.name),
            callers(method),
            quoted(http),
            rate(method),
            summary(method.doc()).to_owned(),
        ]
    });
    table(["method", "who may call it", "HTTP", "limit per minute", "what"], rows)
}

fn callers(method: &Method) -> String {
    match method.access {
        Access::Public => "everybody".to_owned(),
        Access::Session => "agents".to_owned(),
        Access::Internal if method.callers.is_empty() => "the operator".to_owned(),
        Access::Internal => format!("the operator, {}", quoted(method.callers)),
        Access::Peer => "gateways of other domains".to_owned(),
    }
}

fn rate(method: &Method) -> String {
    method.rate.map_or(String::new(), |rate| format!("{} (`{}`)", rate.per_minute, rate.name))
}

fn events(namespace: &Namespace) -> String {
    let mut events =
        proto_schemas::events().iter().filter(|event| event.namespace == namespace.name).peekable();
    if events.peek().is_none() {
        return String::new();
    }
    let rows = events.map(|event| {
        let crosses = if event.federation.is_some() { "yes" } else { "" };
        [
            format!("`{}`", event.name),
            audience(event).to_owned(),
            crosses.to_owned(),
            summary(event.doc()).to_owned(),
        ]
    });
    format!("\n{}", table(["event", "for", "crosses domains", "what"], rows))
}

fn audience(event: &EventSchema) -> &'static str {
    match event.audience {
        EventAudience::Connection => "one connection",
        EventAudience::Device => "one device",
        EventAudience::Agent => "all connections of an agent",
    }
}

fn summary(doc: &serde_json::Value) -> &str {
    doc["summary"].as_str().unwrap_or_default()
}
