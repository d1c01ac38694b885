//! What is wrong with parameters that could not be read, in the words of their schema.
//!
//! What keeps a type from being read is looked for in every call that fails: members that are missing, and values of another kind.
//! Lengths and ranges are looked for in every call of a service that asks for it; others say more about them than a schema can. Forms
//! are the service's.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{COMMON, Method};

/// How many are listed at most.
const MOST: usize = 50;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ParamViolation {
    /// Where, as a JSON Pointer.
    pub path: String,
    /// The keyword of the schema, such as `required`, `type` or `maximum`.
    pub rule: &'static str,
    /// A sentence.
    pub message: String,
}

/// What is wrong with these parameters, in the order of the schema: of each object first what is missing, then what has the wrong
/// kind.
pub fn violations(method: &Method, params: &RawValue) -> Vec<ParamViolation> {
    let mut found = Vec::new();
    if let Some(rules) = METHODS.get(method.name) {
        walk(rules, params, &mut ValuePath::default(), &mut found);
    }
    found
}

static METHODS: LazyLock<HashMap<&str, Rules>> = LazyLock::new(|| {
    #[derive(serde::Deserialize)]
    struct MethodFile {
        #[serde(default)]
        params: Rules,
    }
    let read = |method: &Method| {
        let file: MethodFile = serde_json::from_str(method.text).ok()?;
        Some((method.name, file.params))
    };
    crate::methods().iter().filter_map(read).collect()
});

/// The same with the lengths and the ranges of values whose kind is right.
pub fn bound_violations(method: &Method, params: &RawValue) -> Vec<ParamViolation> {
    let mut found = Vec::new();
    if let Some(rules) = METHODS.get(method.name) {
        let mut path = ValuePath { bounds: true, ..ValuePath::default() };
        walk(rules, params, &mut path, &mut found);
    }
    found
}

/// What a schema says, as far as it is looked at.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Rules {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "type")]
    kinds: Option<Kinds>,
    #[serde(rename = "enum")]
    values: Option<Vec<Value>>,
    #[serde(rename = "const")]
    value: Option<Value>,
    required: Vec<String>,
    properties: OrderedMembers<Rules>,
    items: Option<Box<Rules>>,
    #[serde(rename = "anyOf")]
    any_of: Vec<Rules>,
    #[serde(rename = "minLength")]
    min_length: Option<usize>,
    #[serde(rename = "maxLength")]
    max_length: Option<usize>,
    #[serde(rename = "minItems")]
    min_items: Option<usize>,
    #[serde(rename = "maxItems")]
    max_items: Option<usize>,
    minimum: Option<serde_json::Number>,
    maximum: Option<serde_json::Number>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Kinds {
    One(String),
    Several(Vec<String>),
}

static SHARED: LazyLock<HashMap<String, Rules>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| {
        let rules = serde_json::from_str(text).unwrap_or_default();
        (format!("#/components/schemas/{name}"), rules)
    };
    COMMON.iter().map(read).collect()
});

fn walk(rules: &Rules, value: &RawValue, path: &mut ValuePath, found: &mut Vec<ParamViolation>) {
    if found.len() >= MOST {
        return;
    }
    if let Some(referred) = rules.reference.as_ref().and_then(|name| SHARED.get(name)) {
        return walk(referred, value, path, found);
    }
    // A shared schema or null.
    let shared = rules.any_of.first().filter(|first| first.reference.is_some() && kind_of(value) != "null");
    if let Some(shared) = shared {
        return walk(shared, value, path, found);
    }
    if let Some((rule, wanted)) = rules.broken_by(value) {
        return found.push(path.violation(rule, &format!("must be {wanted}")));
    }
    if let Some((rule, wanted)) = rules.bound_broken_by(value).filter(|_| path.bounds) {
        return found.push(path.violation(rule, &wanted));
    }
    match value.get().as_bytes().first() {
        Some(b'{') if !(rules.properties.0.is_empty() && rules.required.is_empty()) => {
            walk_object(rules, value, path, found);
        }
        Some(b'[') => {
            let (Some(items), Ok(values)) =
                (&rules.items, serde_json::from_str::<Vec<&RawValue>>(value.get()))
            else {
                return;
            };
            for (at, value) in values.into_iter().enumerate() {
                path.inside(PathStep::Item(at), |path| walk(items, value, path, found));
            }
        }
        _ => {}
    }
}

fn walk_object(rules: &Rules, object: &RawValue, path: &mut ValuePath, found: &mut Vec<ParamViolation>) {
    let Ok(OrderedMembers::<&RawValue>(members)) = serde_json::from_str(object.get()) else { return };
    let find = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    for name in rules.required.iter().filter(|name| find(name).is_none()) {
        path.inside(PathStep::Member(name.clone()), |path| {
            found.push(path.violation("required", "is required"))
        });
    }
    // `null` is the same as an absent member where a member is optional.
    let is_left_out =
        |name: &String, value: &RawValue| kind_of(value) == "null" && !rules.required.contains(name);
    for (name, rules) in &rules.properties.0 {
        if let Some(value) = find(name).filter(|value| !is_left_out(name, value)) {
            path.inside(PathStep::Member(name.clone()), |path| walk(rules, value, path, found));
        }
    }
    found.truncate(MOST);
}

impl Rules {
    /// The keyword that the value breaks, and what it asks for.
    fn broken_by(&self, value: &RawValue) -> Option<(&'static str, String)> {
        let kind = kind_of(value);
        // No schema lists an object or a list; one that was sent may be large, and is not made a tree.
        let listable = (self.value.is_some() || self.values.is_some()) && !matches!(kind, "object" | "array");
        let read = listable.then(|| serde_json::from_str::<Value>(value.get()).ok()).flatten();
        let same = |wanted: &Value| read.as_ref() == Some(wanted);
        if let Some(wanted) = self.value.as_ref().filter(|wanted| !same(wanted)) {
            return Some(("const", wanted.to_string()));
        }
        if let Some(values) = self.values.as_ref().filter(|values| !values.iter().any(same)) {
            let words: Vec<String> = values.iter().map(word).collect();
            return Some(("enum", alternatives(&words)));
        }
        let kinds = match self.kinds.as_ref()? {
            Kinds::One(kind) => std::slice::from_ref(kind),
            Kinds::Several(kinds) => kinds,
        };
        let fits = |wanted: &String| wanted == kind || (wanted == "number" && kind == "integer");
        let words: Vec<String> = kinds.iter().map(|kind| with_article(kind).to_owned()).collect();
        (!kinds.iter().any(fits)).then(|| ("type", alternatives(&words)))
    }
}

impl Rules {
    /// The keyword whose bound the value exceeds, and what is asked for.
    fn bound_broken_by(&self, value: &RawValue) -> Option<(&'static str, String)> {
        match kind_of(value) {
            "string" if self.min_length.is_some() || self.max_length.is_some() => {
                let text: Cow<'_, str> = serde_json::from_str(value.get()).ok()?;
                let wanted = || between(self.min_length, self.max_length, "characters");
                let rule = outside(text.chars().count(), self.min_length, self.max_length)?;
                Some((if rule { "minLength" } else { "maxLength" }, format!("must have {}", wanted())))
            }
            "array" if self.min_items.is_some() || self.max_items.is_some() => {
                let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                let wanted = || between(self.min_items, self.max_items, "entries");
                let rule = outside(items.len(), self.min_items, self.max_items)?;
                Some((if rule { "minItems" } else { "maxItems" }, format!("must have {}", wanted())))
            }
            "integer" | "number" if self.minimum.is_some() || self.maximum.is_some() => {
                let number = |text: &serde_json::Number| text.as_f64();
                let (least, most) =
                    (self.minimum.as_ref().and_then(number), self.maximum.as_ref().and_then(number));
                let rule = outside(value.get().parse::<f64>().ok()?, least, most)?;
                let bound = |bound: &Option<serde_json::Number>| {
                    bound.as_ref().map_or_else(String::new, ToString::to_string)
                };
                let wanted = match rule {
                    true => format!("must be at least {}", bound(&self.minimum)),
                    false => format!("must be at most {}", bound(&self.maximum)),
                };
                Some((if rule { "minimum" } else { "maximum" }, wanted))
            }
            _ => None,
        }
    }
}

/// Whether a value is below its least one; `None` where it is in between.
fn outside<N: PartialOrd>(value: N, least: Option<N>, most: Option<N>) -> Option<bool> {
    let below = least.is_some_and(|least| value < least);
    (below || most.is_some_and(|most| value > most)).then_some(below)
}

fn between(least: Option<usize>, most: Option<usize>, of: &str) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{least} to {most} {of}"),
        (Some(least), None) => format!("at least {least} {of}"),
        (_, most) => format!("at most {} {of}", most.unwrap_or_default()),
    }
}

fn kind_of(value: &RawValue) -> &'static str {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ if text.contains(['.', 'e', 'E']) => "number",
        _ => "integer",
    }
}

fn with_article(kind: &str) -> &str {
    match kind {
        "object" => "an object",
        "array" => "a list",
        "string" => "a string",
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        other => other,
    }
}

/// A text of an `enum` without its quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn alternatives(words: &[String]) -> String {
    match words {
        [] => "another value".to_owned(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} or {last}", all.join(", ")),
    }
}

/// Where the walk is.
#[derive(Default)]
struct ValuePath {
    steps: Vec<PathStep>,
    /// Whether bounds are looked at.
    bounds: bool,
}

enum PathStep {
    Member(String),
    Item(usize),
}

impl ValuePath {
    fn inside(&mut self, step: PathStep, walk: impl FnOnce(&mut ValuePath)) {
        self.steps.push(step);
        walk(self);
        self.steps.pop();
    }

    fn violation(&self, rule: &'static str, what: &str) -> ParamViolation {
        ParamViolation { path: self.pointer(), rule, message: format!("{self} {what}") }
    }

    /// RFC 6901.
    fn pointer(&self) -> String {
        let step = |step: &PathStep| match step {
            PathStep::Member(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            PathStep::Item(at) => format!("/{at}"),
        };
        self.steps.iter().map(step).collect()
    }
}

/// `states[2].topic_key`; the whole is `params`.
impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str("params");
        }
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                PathStep::Member(name) if at == 0 => f.write_str(name)?,
                PathStep::Member(name) => write!(f, ".{name}")?,
                PathStep::Item(at) => write!(f, "[{at}]")?,
            }
        }
        Ok(())
    }
}

/// The members of an object in the order they are written, which a map would lose.
struct OrderedMembers<T>(Vec<(String, T)>);

impl<T> Default for OrderedMembers<T> {
    fn default() -> OrderedMembers<T> {
        OrderedMembers(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMembers<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OrderedMembers<T>, D::Error> {
        deserializer.deserialize_map(OrderedMembersVisitor(PhantomData))
    }
}

struct OrderedMembersVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OrderedMembersVisitor<T> {
    type Value = OrderedMembers<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<OrderedMembers<T>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = object.next_entry::<Cow<'de, str>, T>()? {
            members.push((name.into_owned(), value));
        }
        Ok(OrderedMembers(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(method: &str, params: &str) -> Vec<String> {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        let found = violations(crate::find(method).unwrap(), &params);
        found.into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn what_is_missing_comes_first_and_then_the_wrong_kinds_in_the_order_of_the_schema() {
        assert_eq!(sentences("message.send", "{}"), ["to is required", "payload is required"]);
        assert_eq!(
            sentences("message.send", r#"{"message_id":7,"to":[],"ttl":"x"}"#),
            [
                "payload is required",
                "to must be a string",
                "message_id must be a string",
                "ttl must be a number"
            ]
        );
        assert_eq!(sentences("message.pull", r#"{"limit":"x"}"#), ["limit must be an integer"]);
        assert_eq!(sentences("message.pull", r#"{"limit":1.5}"#), ["limit must be an integer"]);
        assert_eq!(sentences("message.pull", "[]"), ["params must be an object"]);
        assert_eq!(sentences("message.pull", r#"{"limit":null}"#), [""; 0], "as if it were absent");
        assert_eq!(sentences("message.send", r#"{"to":null,"payload":{}}"#), ["to must be a string"]);
    }

    #[test]
    fn bounds_are_named_where_they_are_asked_for() {
        let bounds = |method: &str, params: &str| -> Vec<String> {
            let params = RawValue::from_string(params.to_owned()).unwrap();
            let found = bound_violations(crate::find(method).unwrap(), &params);
            found.into_iter().map(|violation| violation.message).collect()
        };
        let params = r#"{"runId":"r","limit":501,"afterSeq":-1}"#;
        assert_eq!(
            bounds("run.events", params),
            ["afterSeq must be at least 0", "limit must be at most 500"]
        );
        assert_eq!(sentences("run.events", params), [""; 0], "only where it is asked for");
        assert_eq!(bounds("run.events", r#"{"runId":"r","limit":500,"afterSeq":0}"#), [""; 0]);
        let long = format!(r#"{{"runId":"r","reason":"{}"}}"#, "é".repeat(1001));
        assert_eq!(bounds("run.cancel", &long), ["reason must have at most 1000 characters"]);
        let none = r#"{"runId":"r","runnerId":"x","epoch":1,"events":[]}"#;
        assert_eq!(bounds("runner.append_events", none), ["events must have 1 to 200 entries"]);
    }

    #[test]
    fn what_a_run_lacks_is_named_in_the_order_of_its_table() {
        assert_eq!(
            sentences("run.create", r#"{"workspaceRef":"/srv"}"#),
            [
                "tenantId is required",
                "projectId is required",
                "providerId is required",
                "backendProfile is required",
                "traceSink is required",
                "workspaceRef must be an object",
            ]
        );
        let wrong = r#"{"tenantId":"t","projectId":"p","workspaceRef":[],"providerId":7,"backendProfile":"b",
            "executionPolicy":{"timeoutMs":"1"},"traceSink":null,"sessionRef":{}}"#;
        assert_eq!(
            sentences("run.create", wrong),
            [
                "workspaceRef must be an object",
                "providerId must be a string",
                "executionPolicy.timeoutMs must be an integer or null",
                "sessionRef.sessionId is required",
            ]
        );
        assert_eq!(
            sentences("run.command_create", r#"{"type":"turn","payload":"x"}"#)[1],
            "payload must be an object"
        );
    }

    #[test]
    fn the_rules_of_every_method_are_read() {
        for method in crate::methods() {
            let listed = crate::properties_of(&method.doc()["params"]).len();
            let wrong = sentences(method.name, "7");
            assert!(listed == 0 || wrong == ["params must be an object"], "{}: {wrong:?}", method.name);
        }
    }

    #[test]
    fn what_is_inside_is_named_with_its_path() {
        let params = r#"{"states":[{"topic_key":"a","last_read_message_id":"b"},{"topic_key":7}]}"#;
        let params = RawValue::from_string(params.to_owned()).unwrap();
        let found = violations(crate::find("message.read").unwrap(), &params);
        let shown: Vec<(&str, &str, &str)> =
            found.iter().map(|it| (it.path.as_str(), it.rule, it.message.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("/states/1/last_read_message_id", "required", "states[1].last_read_message_id is required"),
                ("/states/1/topic_key", "type", "states[1].topic_key must be a string"),
            ]
        );
    }

    #[test]
    fn a_word_of_a_list_is_one_of_it() {
        for wrong in [r#""pigeon""#, "{}", "[[]]", "7"] {
            let wrong = sentences("agent.create", &format!(r#"{{"name":"x","connection_mode":{wrong}}}"#));
            assert_eq!(wrong, ["connection_mode must be websocket, webhook or polling"]);
        }
    }

    #[test]
    fn a_long_list_of_mistakes_ends_somewhere() {
        let marks = vec!["7"; 1000].join(",");
        assert_eq!(sentences("message.read", &format!("{{\"states\":[{marks}]}}")).len(), MOST);
    }
}
