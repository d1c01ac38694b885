//! Every method has a request type, and type and schema agree in both directions.

#[path = "requests/shape.rs"]
mod shape;

use std::collections::BTreeSet;

use proto_schemas::requests::{message, notification};
use proto_schemas::{Request, common, fields_of, fill, find, methods, properties_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

// `all_requests!`, a list of types that `build.rs` writes from the names of the methods. Where a type is missing, this does not compile.
include!(concat!(env!("OUT_DIR"), "/requests.rs"));

/// Calls a check with each request type, and gives the names of their methods.
macro_rules! for_each_request {
    ($check:ident) => {
        all_requests!(for_each_request, $check)
    };
    ($check:ident: $($request:ty),* $(,)?) => {
        [$({ $check::<$request>(); <$request>::METHOD }),*]
    };
}

#[test]
fn every_method_has_a_request_type() {
    fn nothing<R: Request>() {}
    let typed = BTreeSet::from(for_each_request!(nothing));
    let answered = methods().iter().filter(|method| !method.notification);
    assert_eq!(typed, answered.map(|method| method.name).collect());
}

#[test]
fn a_request_and_its_result_have_the_members_of_their_schemas() {
    fn check<R: Request + DeserializeOwned>() {
        let doc = find(R::METHOD).unwrap().doc();
        same_members::<R>(&doc["params"], &format!("params of {}", R::METHOD));
        same_members::<R::Result>(&doc["result"], &format!("result of {}", R::METHOD));
    }
    for_each_request!(check);
    let route = find("notification/route").unwrap().doc();
    same_members::<notification::Route>(&route["params"], "params of notification/route");
    // The pages of an inbox have them as they were written.
    same_members::<message::ReceivedMessage>(&common()["Message"], "messages of message.pull");
    same_members::<message::V2ReceivedMessage>(&common()["V2Message"], "messages of message.v2.pull");
}

#[test]
fn every_example_is_read_and_written_again_as_it_was() {
    fn check<R: Request + DeserializeOwned>()
    where
        R::Result: Serialize,
    {
        for example in successful_examples(R::METHOD) {
            let name = format!("{}, {}", R::METHOD, example["name"]);
            same_again::<R>(&filled(&example["params"]), &format!("the params of {name}"));
            same_again::<R::Result>(&example["result"], &format!("the result of {name}"));
        }
    }
    for_each_request!(check);
    for example in successful_examples("notification/route") {
        same_again::<notification::Route>(&filled(&example["params"]), "the params of notification/route");
    }
}

fn same_members<T: DeserializeOwned>(schema: &'static Value, what: &str) {
    let fields = fields_of::<T>().unwrap_or_else(|| panic!("{what} are not a struct"));
    assert_eq!(fields.iter().copied().collect::<BTreeSet<_>>(), properties_of(schema), "{what}");
    let differences = shape::differences(&shape::of_type::<T>(), &shape::of_schema(schema));
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

fn same_again<T: DeserializeOwned + Serialize>(value: &Value, what: &str) {
    let read: T = serde_json::from_str(&value.to_string()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let written = serde_json::to_string(&read).expect("what was read can be written");
    let written = serde_json::from_str(&written).expect("what was written is JSON");
    assert!(is_same(value, &written), "{what}:\n{value}\nis written as\n{written}");
}

/// 1 and 1.0 are the same number.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, one)| other.get(name).is_some_and(|other| is_same(one, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

fn successful_examples(method: &str) -> impl Iterator<Item = &'static Value> {
    let examples = find(method).and_then(|method| method.doc()["examples"].as_array());
    examples.into_iter().flatten().filter(|example| example.get("error").is_none())
}

/// One text will do: only what is to be a number has to be one.
fn filled(params: &Value) -> Value {
    fill(params, &mut |name| {
        let is_number = name.starts_with("now_") || name == "runner_epoch";
        Some(if is_number { "1794701761" } else { shape::TEXT }.to_owned())
    })
    .expect("every placeholder has a value")
}
