//! Each row of the grammar at its boundary.

use crate::testing::{flaws, parsed, refused, sample, sample_with, scope, with};
use crate::{LARGEST_BYTES, Manifest, ManifestRefusal, Sensitivity, WARNED_BYTES};
use serde_json::{Value, json};

/// What is wrong with a good manifest.
const NONE: [(String, &str); 0] = [];

/// Everything a manifest with this value is refused for, which must be of one rule at one path.
#[track_caller]
fn assert_refused(pointer: &str, value: Value, rule: &str) {
    let found = flaws(&sample_with(pointer, value.clone()));
    assert_eq!(found, [(pointer.to_owned(), rule)], "{pointer} {value:.80}");
}

#[track_caller]
fn assert_accepted(pointer: &str, value: Value) {
    assert_eq!(flaws(&sample_with(pointer, value.clone())), NONE, "{pointer} {value:.80}");
}

#[test]
fn the_sample_of_the_specification_has_its_hash() {
    let manifest = parsed(&sample());
    assert_eq!(manifest.canonical().len(), 642);
    assert_eq!(manifest.hash(), "caec494a0a6ce5631d5c43ac6ba492dbac5c4d0f03f6fa69b00c01edb523de80");
    assert!(manifest.warnings().is_empty());
    assert_eq!(manifest.tool("read_file").unwrap().timeout_ms, 5000);
    assert_eq!(manifest.scope("filesystem:read").unwrap().sensitivity, Sensitivity::Medium);
    assert!(manifest.flags().supports_artifacts && !manifest.flags().supports_voice);

    let schema = "/tools/0/input_schema";
    let more = with(sample(), &format!("{schema}/properties/encoding"), json!({ "type": "string" }));
    let more = parsed(&with(more, &format!("{schema}/required"), json!(["path", "encoding"])));
    assert_eq!(more.canonical().len(), 682);
    assert_eq!(more.hash(), "6f87f9eb657798f114718c56d642aa6b4433c15f263dfaa2cf7569b552a98fe4");
    assert!(crate::compare(&manifest, &more).breaking());

    let spaced = serde_json::to_string_pretty(&sample()).unwrap();
    assert_eq!(Manifest::parse(&spaced).unwrap(), manifest, "white space means nothing");
    assert_eq!(Manifest::parse(manifest.canonical()).unwrap(), manifest);
}

#[test]
fn every_member_has_its_type_and_those_that_are_required_are_there() {
    for pointer in ["/schema_version", "/agent_version", "/tools/0/name", "/tools/0/description_i18n_key"] {
        assert_refused(pointer, Value::Null, "required");
        assert_refused(pointer, json!(1), "type");
    }
    for member in ["id", "label_i18n_key", "sensitivity"] {
        let found = flaws(&sample_with(&format!("/permission_scopes/0/{member}"), json!(["x"])));
        assert!(found.contains(&(format!("/permission_scopes/0/{member}"), "type")), "{found:?}");
    }
    assert_refused("/tools/0/permission_scope", Value::Null, "required");
    assert_refused("/tools/0/input_schema", Value::Null, "required");
    for other in [json!("object"), json!(1), json!([{}])] {
        assert_refused("/tools/0/input_schema", other, "type");
    }
    assert_refused("/tools", json!({}), "type");
    assert_refused("/tools/1", json!("x"), "type");
    assert_refused("/capability_flags", Value::Null, "required");
    assert_refused("/capability_flags", json!([]), "type");
    assert_refused("/capability_flags/supports_voice", json!("no"), "type");
    assert_accepted("/capability_flags/supports_voice", Value::Null);
    assert_accepted("/capability_flags/supports_more", json!("unknown members are kept"));
    assert_refused("/tools/0/required", json!(0), "type");
    assert_eq!(refused("[]").1[0].path, "");
    assert_eq!(refused("{}").1.len(), 5, "all that is missing is named at once");
}

#[test]
fn versions() {
    assert_refused("/schema_version", json!("1.1"), "value");
    for good in ["0.0.0", "1.2.3-rc.1+build.5", "10.20.30"] {
        assert_accepted("/agent_version", json!(good));
    }
    for bad in ["", "1", "1.0", "v1.0.0", "01.0.0", "1.0.0 ", "1.0.0-"] {
        assert_refused("/agent_version", json!(bad), "format");
    }
}

#[test]
fn names_of_tools() {
    for good in ["ab", "a_", "a1", &"a".repeat(32)] {
        assert_accepted("/tools/0/name", json!(good));
    }
    for bad in ["", "a", &"a".repeat(33), "Ab", "1a", "_a", "a-b", "a b", "é1", "ab\n"] {
        assert_refused("/tools/0/name", json!(bad), "format");
    }
    let twice = sample_with("/tools/1", sample()["tools"][0].clone());
    assert_eq!(flaws(&twice), [("/tools/1/name".to_owned(), "unique")]);
}

#[test]
fn keys_of_texts() {
    for pointer in ["/tools/0/description_i18n_key", "/permission_scopes/0/label_i18n_key"] {
        for good in ["a", "A.b_c-9", &"k".repeat(200)] {
            assert_accepted(pointer, json!(good));
        }
        for bad in ["", "a b", "a/b", "ä", &"k".repeat(201)] {
            assert_refused(pointer, json!(bad), "format");
        }
    }
    assert_accepted("/permission_scopes/0/description_i18n_key", Value::Null);
    assert_refused("/permission_scopes/0/description_i18n_key", json!(""), "format");
}

#[test]
fn tools_name_their_scope_their_timeout_and_objects() {
    assert_refused("/tools/0/permission_scope", json!("clipboard:read"), "undeclared_scope");
    for good in [json!(1), json!(600_000), json!(5000.0), Value::Null] {
        assert_accepted("/tools/0/timeout_ms", good);
    }
    for bad in [json!(0), json!(600_001), json!(-1), json!(1.5)] {
        assert_refused("/tools/0/timeout_ms", bad, "range");
    }
    assert_refused("/tools/0/timeout_ms", json!("5000"), "type");
    assert_eq!(parsed(&sample_with("/tools/0/timeout_ms", Value::Null)).tools()[0].timeout_ms, 10_000);
}

#[test]
fn a_tool_takes_arguments_by_any_schema_that_refers_to_nothing_elsewhere() {
    for schema in [
        json!({}),
        json!(true),
        json!(false),
        json!({ "properties": { "path": { "type": "string" } } }),
        json!({ "type": ["object", "null"] }),
        json!({ "type": "string" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "object" } } }),
        json!({ "anyOf": [{ "required": ["a"] }, { "required": ["b"] }], "unevaluatedProperties": false }),
        json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" }),
    ] {
        assert_accepted("/tools/0/input_schema", schema);
    }
    for (schema, path, rule) in [
        (json!({ "type": "text" }), "/type", "json_schema"),
        (json!({ "type": 7 }), "/type", "json_schema"),
        (json!({ "required": "path" }), "/required", "json_schema"),
        (json!({ "$ref": "https://www.example.com/schema.json" }), "/$ref", "local_reference"),
        (json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), "/$schema", "dialect"),
    ] {
        let found = flaws(&sample_with("/tools/0/input_schema", schema.clone()));
        let expected = (format!("/tools/0/input_schema{path}"), rule);
        assert!(found.contains(&expected), "{schema}: {found:?}");
    }
}

#[test]
fn a_schema_that_no_object_fits_gets_a_warning() {
    let warned = |schema: &Value| {
        let manifest = parsed(&sample_with("/tools/0/input_schema", schema.clone()));
        manifest.warnings().iter().any(|warning| warning.path == "/tools/0/input_schema")
    };
    for none in [
        json!(false),
        json!({ "type": "string" }),
        json!({ "type": ["string", "array"] }),
        json!({ "const": 1 }),
        json!({ "enum": ["a", 2, null] }),
        json!({ "not": {} }),
        json!({ "not": true }),
        json!({ "not": { "type": "object" } }),
        json!({ "allOf": [{}, { "type": "null" }] }),
        json!({ "anyOf": [{ "type": "null" }, false] }),
        json!({ "oneOf": [{ "type": "null" }] }),
        json!({ "anyOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "type": "null" } } }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "type": "array" } } }),
    ] {
        assert!(warned(&none), "{none}");
    }
    for some in [
        json!(true),
        json!({}),
        json!({ "type": "object" }),
        json!({ "type": ["object", "null"] }),
        json!({ "const": {} }),
        json!({ "enum": [1, { "a": 1 }] }),
        json!({ "not": { "type": "string" } }),
        json!({ "not": { "type": "object", "required": ["a"] } }),
        json!({ "anyOf": [{ "type": "null" }, {}] }),
        json!({ "properties": { "a": false }, "additionalProperties": { "type": "string" } }),
        json!({ "properties": { "a": { "$ref": "#" } } }),
    ] {
        assert!(!warned(&some), "{some}");
    }
}

#[test]
fn ids_of_scopes() {
    let long = "a".repeat(32);
    for id in ["a:b", "a_1:b_2", &format!("{long}:{long}")] {
        assert_eq!(flaws(&sample_with("/permission_scopes/1", scope(id, "low"))), NONE, "{id}");
    }
    for id in
        ["", "a", "a:", ":b", "A:b", "a:b:c", "a:1", "a b:c", &format!("{long}a:b"), &format!("a:{long}a")]
    {
        let found = flaws(&sample_with("/permission_scopes/1", scope(id, "low")));
        assert_eq!(found, [("/permission_scopes/1/id".to_owned(), "format")], "{id}");
    }
    let twice = sample_with("/permission_scopes/1", sample()["permission_scopes"][0].clone());
    assert_eq!(flaws(&twice), [("/permission_scopes/1/id".to_owned(), "unique")]);
    assert_refused("/permission_scopes/0/sensitivity", json!("severe"), "value");
}

#[test]
fn three_kinds_of_violations_have_codes_of_their_own() {
    for id in ["hashee:read", "system:all"] {
        let mut bare = scope(id, "low");
        bare.as_object_mut().unwrap().remove("label_fallback");
        let (code, found) = refused(&sample_with("/permission_scopes/1", bare).to_string());
        assert_eq!((code, found.len(), found[0].rule), ("MANIFEST_RESERVED_SCOPE", 1, "reserved_scope"));
    }
    assert_eq!(flaws(&sample_with("/permission_scopes/1", scope("systems:all", "low"))), NONE);

    let plain = json!({ "id": "shell:exec", "label_i18n_key": "l", "sensitivity": "high" });
    let plain = sample_with("/permission_scopes/1", plain);
    let (code, found) = refused(&plain.to_string());
    assert_eq!(code, "MANIFEST_FALLBACK_REQUIRED");
    let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["/permission_scopes/1/label_fallback", "/permission_scopes/1/description_fallback"]);

    for (id, lower, higher) in [
        ("notification:send", None, "high"),
        ("filesystem:read", Some("low"), "high"),
        ("clipboard:read", Some("low"), "medium"),
        ("location:read", Some("medium"), "high"),
    ] {
        let of = |sensitivity: &str| {
            let scope = json!({ "id": id, "label_i18n_key": "l", "sensitivity": sensitivity });
            with(sample_with("/tools", json!([])), "/permission_scopes", json!([scope]))
        };
        assert_eq!(flaws(&of(higher)), NONE);
        if let Some(lower) = lower {
            assert_eq!(refused(&of(lower).to_string()).0, "MANIFEST_PRESET_SENSITIVITY", "{id} {lower}");
        }
    }

    let (code, found) = refused(&with(plain, "/schema_version", json!("2")).to_string());
    assert_eq!((code, found.len()), ("MANIFEST_INVALID", 3), "several kinds together");
}

#[test]
fn fallback_texts_have_a_length_in_characters() {
    for (name, most) in [("label_fallback", 120), ("description_fallback", 500)] {
        let of = |text: String| {
            with(
                sample_with("/permission_scopes/1", scope("a:b", "low")),
                &format!("/permission_scopes/1/{name}"),
                json!(text),
            )
        };
        for good in [1, most] {
            assert_eq!(flaws(&of("ü".repeat(good))), NONE, "{name} {good}");
        }
        for bad in [0, most + 1] {
            assert_eq!(flaws(&of("ü".repeat(bad))), [(format!("/permission_scopes/1/{name}"), "length")]);
        }
    }
}

#[test]
fn lists_end() {
    let tool = |n: usize| with(sample()["tools"][0].clone(), "/name", json!(format!("tool_{n}")));
    let tools = |count: usize| sample_with("/tools", (0..count).map(tool).collect());
    assert_eq!(flaws(&tools(256)), NONE);
    assert_eq!(flaws(&tools(257)), [("/tools".to_owned(), "too_many")]);
    let scopes = |count: usize| {
        let scopes: Value = (0..count).map(|n| scope(&format!("a:s{n}"), "low")).collect();
        with(sample_with("/tools", json!([])), "/permission_scopes", scopes)
    };
    assert_eq!(flaws(&scopes(64)), NONE);
    assert_eq!(flaws(&scopes(65)), [("/permission_scopes".to_owned(), "too_many")]);
    assert_eq!(flaws(&scopes(0)), NONE, "nothing is declared, and that is legal");
}

#[test]
fn sizes_are_those_of_the_canonical_form() {
    let sized = |bytes: usize| {
        let empty = sample_with("/padding", json!("")).to_string().len();
        sample_with("/padding", json!("x".repeat(bytes - empty))).to_string()
    };
    let parse = |bytes: usize| Manifest::parse(&sized(bytes));
    assert!(parse(WARNED_BYTES - 1).unwrap().warnings().is_empty());
    assert_eq!(parse(WARNED_BYTES).unwrap().warnings()[0].path, "");
    assert_eq!(parse(LARGEST_BYTES).unwrap().canonical().len(), LARGEST_BYTES);
    let refusal = ManifestRefusal::TooLarge { limit: LARGEST_BYTES, actual: LARGEST_BYTES + 1 };
    assert_eq!(parse(LARGEST_BYTES + 1), Err(refusal));
    let spaced = " ".repeat(LARGEST_BYTES) + &sample().to_string();
    assert!(Manifest::parse(&spaced).is_ok(), "white space is not counted");
}

#[test]
fn violations_come_in_the_order_of_the_text_and_at_most_fifty() {
    let text = r#"{"permission_scopes":7,"tools":{},"agent_version":1,"schema_version":"2"}"#;
    let paths: Vec<String> = refused(text).1.into_iter().map(|violation| violation.path).collect();
    assert_eq!(
        paths,
        ["/permission_scopes", "/tools", "/agent_version", "/schema_version", "/capability_flags"]
    );

    let many = sample_with("/tools", (0..256).map(|_| json!(1)).collect());
    let (_, found) = refused(&many.to_string());
    assert_eq!(found.len(), 50);
    assert_eq!(found[49].path, "/tools/49");
}

#[test]
fn what_is_not_json_or_has_a_key_twice_is_no_manifest() {
    let twice = sample().to_string().replacen("\"tools\"", "\"schema_version\":\"1.0\",\"tools\"", 1);
    for text in ["", "{", "{}{}", &twice] {
        assert!(matches!(Manifest::parse(text), Err(ManifestRefusal::NotJson(_))), "{text:.60}");
    }
}

#[test]
fn a_schema_that_accepts_anything_gets_a_warning() {
    for other in [Value::Null, json!(true), json!({ "type": "string" })] {
        let manifest = parsed(&sample_with("/tools/0/input_schema/additionalProperties", other));
        assert_eq!(manifest.warnings()[0].path, "/tools/0/input_schema/additionalProperties");
    }
}
