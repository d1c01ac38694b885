//! Times in the texts of `search`, `task`, `agent` and `h2a` have one form: whole seconds, `2026-03-21T13:00:00Z`.

use proto_schemas::{events, methods, referred};
use serde_json::Value;

const NAMESPACES: [&str; 4] = ["agent", "h2a", "search", "task"];

/// What is written: results, and what events say. With the example of each.
fn written() -> Vec<(String, &'static Value, Vec<&'static Value>)> {
    let of_methods = methods().iter().filter(|method| NAMESPACES.contains(&method.namespace.name));
    let of_methods = of_methods.filter(|method| method.doc().get("result").is_some()).map(|method| {
        let examples = method.doc()["examples"].as_array().into_iter().flatten();
        let results = examples.filter_map(|example| example.get("result")).collect();
        (method.name.to_owned(), &method.doc()["result"], results)
    });
    let of_events = events().iter().filter(|event| {
        let name = event.name.trim_start_matches("event/");
        NAMESPACES.contains(&name.split('.').next().unwrap_or_default())
    });
    let of_events =
        of_events.map(|event| (event.name.to_owned(), &event.doc()["params"], vec![&event.doc()["example"]]));
    of_methods.chain(of_events).collect()
}

/// A shared schema may have itself inside.
const DEEPEST: usize = 16;

/// Each property below a schema, also of shared ones, with the path to it.
fn properties(schema: &'static Value, path: &str, found: &mut Vec<(String, &'static Value)>) {
    if !schema.is_object() || path.split('/').count() > DEEPEST {
        return;
    }
    if let Some(shared) = referred(schema) {
        return properties(shared, path, found);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        found.push((path.clone(), referred(property).unwrap_or(property)));
        properties(property, &path, found);
    }
    for inside in ["items", "additionalProperties"] {
        properties(&schema[inside], &format!("{path}/{inside}"), found);
    }
    for inside in ["allOf", "anyOf", "oneOf"] {
        let all = schema[inside].as_array().into_iter().flatten();
        all.for_each(|one| properties(one, path, found));
    }
}

/// Each text below a value, with the path to it.
fn texts<'v>(value: &'v Value, path: &str, found: &mut Vec<(String, &'v str)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text)),
        Value::Array(items) => items.iter().for_each(|item| texts(item, path, found)),
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| texts(member, &format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

fn is_text(schema: &Value) -> bool {
    match &schema["type"] {
        Value::Array(types) => types.contains(&"string".into()),
        one => one == "string",
    }
}

/// `2026-03-21T13:00:00Z`, and nothing else.
fn is_whole_seconds(text: &str) -> bool {
    let form = b"dddd-dd-ddTdd:dd:ddZ";
    text.len() == form.len()
        && text.bytes().zip(form).all(|(byte, wanted)| match wanted {
            b'd' => byte.is_ascii_digit(),
            other => byte == *other,
        })
}

fn begins_like_a_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > 10 && bytes[10] == b'T' && bytes[4] == b'-' && bytes[..4].iter().all(u8::is_ascii_digit)
}

#[test]
fn every_time_that_is_written_as_text_has_whole_seconds_by_its_schema() {
    let mut times = 0;
    for (name, schema, _) in written() {
        let mut found = Vec::new();
        properties(schema, "", &mut found);
        for (path, schema) in found {
            let named = path.ends_with("_at") || path.ends_with("snapshot_version");
            if !named || !is_text(schema) {
                continue;
            }
            times += 1;
            let pattern = schema["pattern"].as_str().unwrap_or_default();
            assert_eq!(pattern, r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$", "{name}{path}");
        }
    }
    assert!(times > 20, "only {times} were found");
}

#[test]
fn every_time_in_an_example_has_whole_seconds() {
    let mut times = 0;
    for (name, _, examples) in written() {
        for example in examples {
            let mut found = Vec::new();
            texts(example, "", &mut found);
            for (path, text) in found.into_iter().filter(|(_, text)| begins_like_a_time(text)) {
                times += 1;
                assert!(is_whole_seconds(text), "{name}{path}: {text}");
            }
        }
    }
    assert!(times > 20, "only {times} were found");
}
