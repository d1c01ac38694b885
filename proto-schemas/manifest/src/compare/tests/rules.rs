//! Each rule alone.

use crate::compare::{ManifestComparison, compare};
use crate::testing::{parsed, sample, sample_with, scope, with};
use serde_json::{Value, json};

fn compared(old: &Value, new: &Value) -> ManifestComparison {
    compare(&parsed(old), &parsed(new))
}

/// The sample with this schema for its tool.
fn of_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["type"] = json!("object");
    sample_with("/tools/0/input_schema", schema)
}

/// Rule and path of each change of a schema.
fn changes(old: &Value, new: &Value) -> Vec<(&'static str, String)> {
    let comparison = compared(&of_schema(old), &of_schema(new));
    let expected: Vec<String> = if comparison.reasons.iter().any(|reason| reason.breaking) {
        vec!["filesystem:read".to_owned()]
    } else {
        Vec::new()
    };
    assert_eq!(comparison.scopes_requiring_reauth, expected);
    let changes = comparison.reasons.into_iter().map(|reason| {
        assert_eq!(reason.breaking, !["R3c", "R4c", "R7", "R8", "R10"].contains(&reason.rule), "{reason:?}");
        assert_eq!(reason.tool.as_deref(), Some("read_file"));
        let path = reason.path.unwrap_or_default();
        (reason.rule, path.strip_prefix("/input_schema").unwrap_or(&path).to_owned())
    });
    changes.collect()
}

/// A schema with one property.
fn property(schema: Value) -> Value {
    json!({ "properties": { "a": schema } })
}

#[test]
fn each_rule_of_schemas_alone() {
    let table = [
        (
            "R1",
            json!({ "properties": { "a": {} } }),
            json!({ "properties": { "a": {} }, "required": ["a"] }),
            "/properties/a",
        ),
        (
            "R2",
            property(json!({ "type": "string" })),
            property(json!({ "type": "array" })),
            "/properties/a/type",
        ),
        (
            "R2",
            property(json!({ "type": "integer" })),
            property(json!({ "type": "number" })),
            "/properties/a/type",
        ),
        (
            "R2",
            property(json!({ "type": "string" })),
            property(json!({ "type": ["string", "null"] })),
            "/properties/a/type",
        ),
        ("R2", property(json!({ "type": "string" })), property(json!({})), "/properties/a/type"),
        ("R2", property(json!({})), property(json!(false)), "/properties/a/type"),
        ("R3", json!({}), json!({ "additionalProperties": false }), "/additionalProperties"),
        (
            "R3",
            json!({ "additionalProperties": true }),
            json!({ "additionalProperties": false }),
            "/additionalProperties",
        ),
        ("R3b", json!({}), json!({ "additionalProperties": { "type": "string" } }), "/additionalProperties"),
        (
            "R3b",
            json!({ "additionalProperties": { "type": "string" } }),
            json!({ "additionalProperties": false }),
            "/additionalProperties",
        ),
        ("R3c", json!({ "additionalProperties": false }), json!({}), "/additionalProperties"),
        (
            "R3c",
            json!({ "additionalProperties": false }),
            json!({ "additionalProperties": { "type": "string" } }),
            "/additionalProperties",
        ),
        (
            "R3c",
            json!({ "additionalProperties": { "type": "string" } }),
            json!({ "additionalProperties": true }),
            "/additionalProperties",
        ),
        ("R4", property(json!({ "enum": [1, 2] })), property(json!({ "enum": [2] })), "/properties/a/enum"),
        ("R4", property(json!({ "enum": [1, 2] })), property(json!({ "const": 2 })), "/properties/a/const"),
        ("R4b", property(json!({})), property(json!({ "enum": [1] })), "/properties/a/enum"),
        ("R4b", property(json!({})), property(json!({ "const": 1 })), "/properties/a/const"),
        ("R4c", property(json!({ "enum": [1] })), property(json!({ "enum": [1, 2] })), "/properties/a/enum"),
        ("R4c", property(json!({ "const": 1 })), property(json!({ "enum": [2, 1.0] })), "/properties/a/enum"),
        ("R4c", property(json!({ "enum": [1] })), property(json!({})), "/properties/a/enum"),
        ("R10", json!({ "required": ["a"] }), json!({}), "/properties/a"),
        ("R10", json!({}), property(json!({ "type": "string" })), "/properties/a"),
        ("R10", property(json!({ "enum": [1] })), json!({}), "/properties/a"),
        (
            "R10",
            property(json!({ "maxLength": 9 })),
            property(json!({ "maxLength": 1 })),
            "/properties/a/maxLength",
        ),
        ("R10", property(json!({})), property(json!({ "pattern": "^a$" })), "/properties/a/pattern"),
        ("R10", property(json!({})), property(json!({ "format": "uri" })), "/properties/a/format"),
        ("R10", property(json!({ "items": {} })), property(json!({})), "/properties/a/items"),
        ("R10", json!({ "anyOf": [{}] }), json!({ "anyOf": [{}, { "required": ["a"] }] }), "/anyOf"),
    ];
    for (rule, old, new, path) in table {
        assert_eq!(changes(&old, &new), [(rule, path.to_owned())], "{old} {new}");
    }
}

#[test]
fn a_schema_may_be_true_or_false_or_say_nothing() {
    let between = |old: Value, new: Value| {
        let of = |schema: Value| sample_with("/tools/0/input_schema", schema);
        let comparison = compared(&of(old), &of(new));
        let reauth = comparison.scopes_requiring_reauth.join(" ");
        let reasons =
            comparison.reasons.into_iter().map(|reason| (reason.rule, reason.path.unwrap_or_default()));
        (reasons.collect::<Vec<_>>(), reauth)
    };
    let breaking = |rule, path: &str| (vec![(rule, path.to_owned())], "filesystem:read".to_owned());
    let harmless = |path: &str| (vec![("R10", path.to_owned())], String::new());
    assert_eq!(between(json!(true), json!({})), harmless("/input_schema"), "written in another way");
    assert_eq!(between(json!({}), json!(true)), harmless("/input_schema"));
    assert_eq!(between(json!(true), json!(true)), (vec![], String::new()));
    assert_eq!(between(json!(false), json!(false)), (vec![], String::new()));
    let object = json!({ "type": "object" });
    for other in [json!(true), json!({}), object.clone()] {
        assert_eq!(between(json!(false), other.clone()), breaking("R2", "/input_schema/type"), "from false");
        assert_eq!(between(other, json!(false)), breaking("R2", "/input_schema/type"), "to false");
    }
    assert_eq!(between(json!(true), object.clone()), breaking("R2", "/input_schema/type"));
    assert_eq!(between(object, json!({})), breaking("R2", "/input_schema/type"), "also when it is widened");
    assert_eq!(
        between(json!({}), json!({ "additionalProperties": false })),
        breaking("R3", "/input_schema/additionalProperties")
    );
    assert_eq!(
        between(json!(true), json!({ "required": ["a"] })),
        breaking("R1", "/input_schema/properties/a")
    );
    let inside = |schema: Value| json!({ "properties": { "a": schema } });
    assert_eq!(between(inside(json!(true)), inside(json!({}))), harmless("/input_schema"));
    let of_a = "/input_schema/properties/a/type";
    assert_eq!(between(inside(json!(false)), inside(json!({}))), breaking("R2", of_a));
    assert_eq!(between(inside(json!({ "type": "string" })), inside(json!(false))), breaking("R2", of_a));
}

#[test]
fn schemas_inside_schemas_are_compared() {
    for (around, path) in [
        (json!({ "properties": { "a": null } }), "/properties/a"),
        (json!({ "patternProperties": { "^a/b$": null } }), "/patternProperties/^a~1b$"),
        (json!({ "additionalProperties": null }), "/additionalProperties"),
        (property(json!({ "items": null })), "/properties/a/items"),
        (property(json!({ "prefixItems": [{}, null] })), "/properties/a/prefixItems/1"),
        (json!({ "allOf": [null] }), "/allOf/0"),
        (json!({ "anyOf": [null] }), "/anyOf/0"),
        (json!({ "oneOf": [{}, null] }), "/oneOf/1"),
        (json!({ "$ref": "#/$defs/a", "$defs": { "a": null } }), "/$defs/a"),
        (
            json!({ "properties": { "x": { "$ref": "#/$defs/a" }, "y": { "$ref": "#/$defs/a" } }, "$defs": { "a": null } }),
            "/$defs/a",
        ),
    ] {
        let of = |schema: &str| serde_json::from_str(&around.to_string().replace("null", schema)).unwrap();
        let (old, new): (Value, Value) = (of(r#"{"enum":[1,2]}"#), of(r#"{"enum":[1]}"#));
        assert_eq!(changes(&old, &new), [("R4", format!("{path}/enum"))], "{new}");
    }
}

#[test]
fn a_reference_is_what_it_leads_to() {
    let inline = property(json!({ "type": "string", "enum": ["a"] }));
    let referred = json!({ "properties": { "a": { "$ref": "#/$defs/%61" } }, "$defs": { "a": { "type": "string", "enum": ["a"] } } });
    let anchored = json!({ "properties": { "a": { "$ref": "#n" } }, "$defs": { "x": { "$anchor": "n", "type": "string", "enum": ["a"] } } });
    assert_eq!(
        changes(&inline, &referred),
        [("R10", String::new())],
        "something changed, and nothing that matters"
    );
    assert!(changes(&referred, &inline).iter().all(|(rule, _)| *rule == "R10"));
    assert!(changes(&inline, &anchored).iter().all(|(rule, _)| *rule == "R10"));
    let narrower = with(referred.clone(), "/$defs/a/enum", json!(["b"]));
    assert_eq!(
        changes(&inline, &narrower),
        [("R4", "/$defs/a/enum".to_owned()), ("R4c", "/$defs/a/enum".to_owned())]
    );
    let required = with(referred, "/properties/a/required", json!(["b"]));
    assert_eq!(changes(&inline, &required), [("R1", "/properties/a/properties/b".to_owned())]);
}

#[test]
fn cycles_of_references_end() {
    let ring = |length: usize, last: Value| {
        let mut definitions = serde_json::Map::new();
        for n in 0..length {
            let next = json!({ "$ref": format!("#/$defs/d{}", (n + 1) % length) });
            definitions.insert(format!("d{n}"), json!({ "properties": { "a": next, "b": last } }));
        }
        json!({ "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": definitions })
    };
    let (seven, eleven) = (ring(7, json!({ "type": "string" })), ring(11, json!({ "type": "string" })));
    assert!(changes(&seven, &eleven).iter().all(|(rule, _)| *rule == "R10"));
    let found = changes(&seven, &ring(7, json!({ "type": "null" })));
    assert_eq!(found.len(), 7);
    assert!(found.iter().all(|(rule, _)| *rule == "R2"));
}

#[test]
fn a_new_member_of_all_of_narrows() {
    let found = changes(&json!({}), &json!({ "allOf": [{ "required": ["a"] }] }));
    assert_eq!(found, [("R10", "/allOf".to_owned()), ("R1", "/allOf/0/properties/a".to_owned())]);
}

#[test]
fn each_rule_of_tools_and_scopes_alone() {
    let wide = with(
        sample_with("/permission_scopes/1", scope("a:high", "high")),
        "/permission_scopes/1",
        scope("a:low", "low"),
    );
    let second = with(sample()["tools"][0].clone(), "/name", json!("second"));
    let table = [
        ("R5", sample(), sample_with("/permission_scopes/0/sensitivity", json!("high")), "filesystem:read"),
        ("R5", wide.clone(), with(wide.clone(), "/tools/0/permission_scope", json!("a:high")), "a:high"),
        ("R6", sample(), sample_with("/permission_scopes/1", scope("a:b", "low")), "a:b"),
        ("R7", sample_with("/permission_scopes/1", scope("a:b", "low")), sample(), ""),
        ("R7", sample(), sample_with("/tools", json!([])), ""),
        ("R8", sample(), sample_with("/tools/1", second.clone()), ""),
        ("R9", sample(), sample_with("/tools/0/required", json!(true)), "filesystem:read"),
        ("R10", sample_with("/tools/0/required", json!(true)), sample(), ""),
        ("R10", sample(), sample_with("/tools/0/timeout_ms", json!(1)), ""),
        ("R10", sample(), sample_with("/tools/0/description_i18n_key", json!("other")), ""),
        ("R10", sample(), sample_with("/capability_flags/supports_voice", json!(true)), ""),
        ("R10", sample(), sample_with("/agent_version", json!("2.0.0")), ""),
        ("R10", sample(), sample_with("/unknown", json!(1)), ""),
        ("R10", sample(), sample_with("/permission_scopes/0/label_i18n_key", json!("other")), ""),
        ("R10", wide.clone(), with(wide.clone(), "/tools/0/permission_scope", json!("a:low")), ""),
        ("R10", sample_with("/permission_scopes/0/sensitivity", json!("high")), sample(), ""),
    ];
    for (rule, old, new, reauth) in table {
        let comparison = compared(&old, &new);
        let rules: Vec<&str> = comparison.reasons.iter().map(|reason| reason.rule).collect();
        assert!(
            rules.contains(&rule) && rules.iter().all(|found| [rule, "R10"].contains(found)),
            "{rule} {rules:?}"
        );
        assert_eq!(comparison.scopes_requiring_reauth.join(" "), reauth, "{rule}");
        assert_eq!(comparison.breaking(), !reauth.is_empty());
    }

    let under_new = with(
        sample_with("/permission_scopes/1", scope("a:b", "low")),
        "/tools/1",
        with(second, "/permission_scope", json!("a:b")),
    );
    let comparison = compared(&sample(), &under_new);
    let rules: Vec<&str> = comparison.reasons.iter().map(|reason| reason.rule).collect();
    assert_eq!(rules, ["R6", "R10"], "a new tool under a new scope");
    assert_eq!(comparison.scopes_requiring_reauth, ["a:b"]);

    let renamed = compared(&sample(), &sample_with("/tools/0/name", json!("other")));
    let told: Vec<_> = renamed.reasons.iter().map(|reason| (reason.rule, reason.tool.as_deref())).collect();
    assert_eq!(told, [("R8", Some("other")), ("R7", Some("read_file"))]);
    assert!(!renamed.breaking());
}

#[test]
fn the_report_has_an_order_and_leaves_out_what_is_absent() {
    let new =
        with(sample_with("/permission_scopes/1", scope("a:b", "low")), "/tools/0/required", json!(true));
    let comparison = compared(&sample(), &new);
    assert_eq!(
        serde_json::to_value(&comparison).unwrap(),
        json!({
            "reasons": [
                { "rule": "R6", "breaking": true, "scope": "a:b" },
                { "rule": "R9", "breaking": true, "tool": "read_file", "scope": "filesystem:read" }
            ],
            "scopes_requiring_reauth": ["a:b", "filesystem:read"]
        })
    );
}
