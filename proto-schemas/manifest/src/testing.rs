//! What the tests share: the sample of the specification, and short ways to ask.

use super::manifest::Manifest;
use super::refusal::{ManifestRefusal, Violation};
use serde_json::{Value, json};

/// The manifest that the specification shows, which is also the one of the first example of `agent.create`.
pub(crate) fn sample() -> Value {
    let create: Value =
        serde_json::from_str(include_str!("../../agent/create.json")).expect("a schema is JSON");
    create["examples"][0]["params"]["capability_manifest"].clone()
}

/// The sample with another value somewhere; with null, without what was there.
pub(crate) fn sample_with(pointer: &str, value: Value) -> Value {
    with(sample(), pointer, value)
}

/// A value with another value at a pointer; with null, without what was there.
pub(crate) fn with(mut whole: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer to a member");
    let parent = whole.pointer_mut(parent).expect("the parent is there");
    match (parent, value.is_null()) {
        (Value::Object(members), true) => drop(members.remove(name)),
        (Value::Object(members), false) => drop(members.insert(name.to_owned(), value)),
        (Value::Array(items), _) => items.insert(name.parse().expect("a position"), value),
        (other, _) => panic!("{pointer} leads into {other}"),
    }
    whole
}

/// A scope that is not preset, with the texts it needs.
pub(crate) fn scope(id: &str, sensitivity: &str) -> Value {
    json!({
        "id": id, "label_i18n_key": "scope.label", "sensitivity": sensitivity,
        "label_fallback": "A scope", "description_fallback": "What the scope allows"
    })
}

pub(crate) fn parsed(manifest: &Value) -> Manifest {
    Manifest::parse(&manifest.to_string()).unwrap_or_else(|refusal| panic!("{refusal}: {manifest}"))
}

/// The code of the refusal, and what is wrong.
pub(crate) fn refused(text: &str) -> (&'static str, Vec<Violation>) {
    match Manifest::parse(text) {
        Err(ManifestRefusal::Invalid { code, violations }) => (code, violations),
        other => panic!("{text:.200}: {other:?}"),
    }
}

/// Path and rule of everything that is wrong.
pub(crate) fn flaws(manifest: &Value) -> Vec<(String, &'static str)> {
    match Manifest::parse(&manifest.to_string()) {
        Ok(_) => Vec::new(),
        Err(ManifestRefusal::Invalid { violations, .. }) => {
            violations.into_iter().map(|violation| (violation.path, violation.rule)).collect()
        }
        Err(other) => panic!("{other}"),
    }
}
