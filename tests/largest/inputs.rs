//! The inputs of a method that are worth sending: everything at once as large as it may be, and each member alone.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use proto_schemas::Method;
use serde_json::{Map, Value};

use super::formats::SIGNATURES;
use super::growth::{Growth, format_name};

/// Above this an input is sent a little smaller, too.
const LARGE: usize = 4096;
const PLAIN: Growth = Growth { filler: 'x', sixteenths: 16 };
/// A character of four bytes: where a limit counts characters, texts have four times as many bytes.
const WIDE: Growth = Growth { filler: '\u{10400}', sixteenths: 16 };
/// Limits that several members share, or that no schema can say, are met from below.
const BELOW: [Growth; 2] = [Growth { filler: 'x', sixteenths: 15 }, Growth { filler: 'x', sixteenths: 8 }];

/// The params of the calls of one method, with the placeholders of its first example in them, each of at most `space` bytes. The
/// largest come first, because some calls can be executed once.
pub fn largest_inputs(method: &Method, space: usize) -> Vec<Value> {
    let schema = &method.doc()["params"];
    let example = example_of(method);
    let mut inputs = Vec::new();
    for growth in [PLAIN, WIDE] {
        let unsigned = |schema: &Value| !format_name(schema).is_some_and(|name| SIGNATURES.contains(&name));
        inputs.push(Value::Object(growth.members(schema, example, space, unsigned)));
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let needed = needed_members(schema, example, name);
        let left = space.saturating_sub(Value::Object(needed.clone()).to_string().len() + name.len() + 4);
        for growth in [PLAIN].into_iter().chain(BELOW) {
            let grown = growth.value(member, &example[name.as_str()], left, 0);
            let is_large = grown.to_string().len() > LARGE;
            let mut params = needed.clone();
            params.insert(name.clone(), grown);
            inputs.push(Value::Object(params));
            if !is_large {
                break;
            }
        }
    }
    inputs.push(example.clone());
    let mut seen = BTreeSet::new();
    inputs.retain(|input| seen.insert(input.to_string()));
    inputs.sort_by_cached_key(|input| Reverse(input.to_string().len()));
    inputs
}

/// The params of the first example that works.
pub fn example_of(method: &Method) -> &'static Value {
    let mut examples = method.doc()["examples"].as_array().into_iter().flatten();
    let works = examples.find(|example| example.get("error").is_none());
    &works.expect("every method has an example that works")["params"]
}

/// What a call cannot do without beside this member, as it is in the example.
fn needed_members(schema: &Value, example: &Value, beside: &str) -> Map<String, Value> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names = names.filter(|name| *name != beside);
    names.filter_map(|name| Some((name.to_owned(), example.get(name)?.clone()))).collect()
}
