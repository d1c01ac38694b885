//! Which schemas are accepted, and that none of them costs more than it should.

use super::{ArgumentValidator, schema_violations};
use crate::testing::{flaws, sample, sample_with, with};
use serde_json::{Value, json};

/// What is wrong with a good schema.
const NONE: [(String, &str); 0] = [];

fn rules(schema: &Value) -> Vec<(String, &'static str)> {
    schema_violations(schema).into_iter().map(|violation| (violation.path, violation.rule)).collect()
}

#[track_caller]
fn assert_refused(schema: Value, path: &str, rule: &str) {
    let found = rules(&schema);
    assert!(found.iter().any(|(at, broken)| at == path && *broken == rule), "{schema:.200}: {found:?}");
}

#[test]
fn what_is_no_schema_is_refused_where_it_is_not() {
    assert_refused(json!({ "type": "objekt" }), "/type", "json_schema");
    assert_refused(json!({ "properties": { "a": 5 } }), "/properties/a", "json_schema");
    assert_refused(json!({ "required": "a" }), "/required", "json_schema");
    assert_refused(json!({ "items": [{}] }), "/items", "json_schema");
    assert_refused(json!({ "minLength": -1, "maximum": "1" }), "/minLength", "json_schema");
    assert_refused(json!({ "minLength": -1, "maximum": "1" }), "/maximum", "json_schema");
    assert_eq!(rules(&json!({ "x-own": 1, "properties": { "$ref": { "type": "string" } } })), NONE);
    let found = flaws(&sample_with("/tools/0/input_schema/properties/path/type", json!("text")));
    assert_eq!(found, [("/tools/0/input_schema/properties/path/type".to_owned(), "json_schema")]);
}

#[test]
fn references_stay_inside() {
    for reference in [
        "http://127.0.0.1:9/schema.json",
        "https://json-schema.org/draft/2020-12/schema",
        "file:///etc/passwd",
        "other.json",
        "other.json#/$defs/a",
        "#/$defs/none",
        "#none",
        "#/enum/0",
        "",
    ] {
        let schema = json!({ "$ref": reference, "enum": [{ "type": "string" }] });
        assert_refused(schema, "/$ref", "local_reference");
        let below = json!({ "properties": { "a": { "items": { "$dynamicRef": reference } } } });
        assert_refused(below, "/properties/a/items/$dynamicRef", "local_reference");
    }
    let defs = json!({ "a": { "$anchor": "named" }, "b c/d": {} });
    for reference in ["#", "#/$defs/a", "#named", "#/$defs/b%20c~1d"] {
        let schema = json!({ "$defs": defs.clone(), "properties": { "x": { "$ref": reference } } });
        assert_eq!(rules(&schema), NONE, "{reference}");
    }
    let quoted =
        json!({ "enum": [{ "$ref": "http://127.0.0.1:9/" }], "default": { "$id": "http://127.0.0.1:9/" } });
    assert_eq!(rules(&quoted), NONE, "what is no schema refers to nothing");
}

#[test]
fn there_is_one_dialect_and_one_base() {
    let dialect = "https://json-schema.org/draft/2020-12/schema";
    assert_eq!(rules(&json!({ "$schema": dialect, "$id": "urn:own" })), NONE);
    for other in ["http://json-schema.org/draft-07/schema#", "http://127.0.0.1:9/", ""] {
        assert_refused(json!({ "$schema": other }), "/$schema", "dialect");
    }
    assert_refused(json!({ "$defs": { "a": { "$id": "urn:other" } } }), "/$defs/a/$id", "local_reference");
}

#[test]
fn nesting_ends_at_32() {
    let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "not": inner }));
    assert_eq!(rules(&nested(32)), NONE);
    let found = rules(&nested(33));
    assert_eq!(found, [("/not".repeat(32), "nesting")]);
    let lists = (1..33).fold(json!([]), |inner, _| json!([inner]));
    assert_eq!(rules(&json!({ "default": lists }))[0].1, "nesting");
    let found = rules(&json!({ "properties": { ("k".repeat(2000)): {} } }));
    assert_eq!(found, [("/properties".to_owned(), "length")], "nor may the way to a part be long");
}

#[test]
fn patterns_are_matched_in_linear_time_and_take_little_memory() {
    for good in ["^[a-z]+$", "^(a+)+$", "^\\d{3}-\\d{4}$", "^\\p{L}+$", "a|b"] {
        assert_eq!(rules(&json!({ "pattern": good })), NONE, "{good}");
    }
    for bad in
        ["(", "a(?=b)", "(?<!a)b", "(a)\\1", "((a{99}){99}){99}", "[a-z]{1000}{1000}", &"a?".repeat(501)]
    {
        assert_refused(json!({ "pattern": bad }), "/pattern", "pattern");
        let path = format!("/patternProperties/{bad}");
        assert_refused(json!({ "patternProperties": { bad: true } }), &path, "pattern");
    }
    // A backtracking engine would take 2^40 steps for this one.
    let validator = ArgumentValidator::new(&json!({ "pattern": "^(a|a)*$" })).unwrap();
    assert!(!validator.accepts(&json!("a".repeat(40) + "b")));

    let many = |count: usize| (0..count).map(|n| json!({ "pattern": format!("^{n}$") })).collect::<Value>();
    assert_eq!(rules(&json!({ "anyOf": many(64) })), NONE);
    assert_refused(json!({ "anyOf": many(65) }), "", "pattern");
    let tool = |n: usize| {
        let named = with(sample()["tools"][0].clone(), "/name", json!(format!("tool_{n}")));
        let large = (0..10).map(|n| json!({ "pattern": format!("^{n}[a-z]{{900}}$") })).collect();
        with(named, "/input_schema/anyOf", large)
    };
    assert_eq!(flaws(&sample_with("/tools", (0..2).map(tool).collect())), NONE);
    let found = flaws(&sample_with("/tools", (0..4).map(tool).collect()));
    assert_eq!(found, [("/tools/2/input_schema".to_owned(), "pattern")], "and all of a manifest have a size");
}

/// The device that offers a tool must be able to check its arguments.
#[test]
fn the_largest_patterns_that_are_accepted_can_be_compiled() {
    for pattern in
        ["^[a-z]{4990}$", "^.{2490}$", "^\\p{L}{14}$", "^(a|bc|[0-9]x){990}$", "^[^,]{3000}$", "^\\w{12}$"]
    {
        let schema = json!({ "pattern": pattern });
        assert_eq!(rules(&schema), NONE, "{pattern}");
        assert!(ArgumentValidator::new(&schema).is_ok(), "{pattern}");
    }
}

#[test]
fn recursion_that_follows_the_arguments_is_accepted() {
    let tree = json!({
        "type": "object",
        "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" }, "value": { "type": "integer" } },
        "additionalProperties": false
    });
    assert_eq!(rules(&tree), NONE);
    let validator = ArgumentValidator::new(&tree).unwrap();
    let grown = |depth: usize, value: Value| {
        (1..depth).fold(json!({ "value": value }), |inner, _| json!({ "left": inner.clone(), "right": {} }))
    };
    assert!(validator.accepts(&grown(32, json!(1))));
    assert!(!validator.accepts(&grown(32, json!("1"))));
    assert!(!validator.accepts(&grown(33, json!(1))), "deeper than a validator follows");

    // The same part is looked at twice on each level.
    let twice = json!({ "properties": { "a": { "$ref": "#" } }, "allOf": [{ "properties": { "a": { "$ref": "#" } } }] });
    assert_eq!(rules(&twice), NONE);
    let deep = (1..32).fold(json!({}), |inner, _| json!({ "a": inner }));
    assert!(ArgumentValidator::new(&twice).unwrap().accepts(&deep));
}

#[test]
fn schemas_that_never_end_or_grow_without_measure_are_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        assert_refused(json!({ keyword: [true, { "$ref": "#" }] }), "", "local_reference");
    }
    let around = json!({ "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "if": { "$ref": "#/$defs/a" } } } });
    assert_eq!(rules(&around), [("/$defs/a".to_owned(), "local_reference")]);
    assert_refused(json!({ "dependentSchemas": { "a": { "$dynamicRef": "#" } } }), "", "local_reference");

    let chained = |length: usize, next: fn(Value) -> Value| {
        let mut definitions = serde_json::Map::new();
        for n in 0..length {
            definitions.insert(format!("d{n}"), next(json!({ "$ref": format!("#/$defs/d{}", n + 1) })));
        }
        definitions.insert(format!("d{length}"), json!({ "type": "object" }));
        json!({ "$ref": "#/$defs/d0", "$defs": definitions })
    };
    let doubled = |length| chained(length, |next| json!({ "allOf": [next.clone(), next] }));
    assert_eq!(rules(&doubled(10)), NONE);
    assert!(!ArgumentValidator::new(&doubled(10)).unwrap().accepts(&json!([])));
    assert_refused(doubled(30), "", "nesting");
    assert_eq!(rules(&chained(50, |next| next)), NONE);
    assert_refused(chained(100, |next| next), "", "nesting");
    assert_refused(chained(2000, |next| json!({ "properties": { "a": next } })), "", "nesting");
}

#[test]
fn arguments_are_checked_by_2020_12() {
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string", "format": "uri" }, "pair": { "prefixItems": [{ "type": "integer" }], "items": false } },
        "required": ["path"],
        "unevaluatedProperties": false
    });
    let validator = ArgumentValidator::new(&schema).unwrap();
    for good in [json!({ "path": "not a uri" }), json!({ "path": "", "pair": [1.0] })] {
        assert!(validator.accepts(&good), "{good}");
    }
    for bad in [
        json!({}),
        json!({ "path": 1 }),
        json!({ "path": "", "pair": [1, 2] }),
        json!({ "path": "", "x": 1 }),
        json!([]),
    ] {
        assert!(!validator.accepts(&bad), "{bad}");
    }
}
