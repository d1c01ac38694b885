//! What holds for any two manifests.

use crate::compare::compare;
use crate::testing::{parsed, sample, scope, with};
use crate::{Manifest, Sensitivity};
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NAMES: [&str; 4] = ["aa", "bb", "cc", "dd"];
const SCOPES: [&str; 3] = ["x:low", "x:medium", "x:high"];
const PROPERTIES: [&str; 3] = ["p", "q", "r"];

/// A schema of one value, some with schemas inside.
fn value_schema() -> impl Strategy<Value = Value> {
    let simple = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({ "$ref": "#" })),
        prop::sample::select(vec!["string", "integer", "number", "boolean", "null"])
            .prop_map(|name| json!({ "type": name })),
        subsequence(vec![1, 2, 3], 1..=3).prop_map(|values| json!({ "enum": values })),
        (0..3_u32).prop_map(|bound| json!({ "type": "string", "maxLength": bound })),
    ];
    simple.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            object_schema(inner.clone().boxed()),
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            prop::collection::vec(inner, 1..3).prop_map(|several| json!({ "anyOf": several })),
        ]
    })
}

/// A schema of an object, without schemas that have a reference to it at the same value.
fn object_schema(inner: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let names = || subsequence(PROPERTIES.to_vec(), 0..=PROPERTIES.len());
    let others = prop::option::of(prop_oneof![Just(json!(true)), Just(json!(false)), inner.clone()]);
    (prop::collection::vec(inner, PROPERTIES.len()), names(), names(), others).prop_map(
        |(schemas, named, required, others)| {
            let properties: serde_json::Map<String, Value> =
                named.iter().zip(schemas).map(|(name, schema)| ((*name).to_owned(), schema)).collect();
            let mut schema = json!({ "type": "object", "properties": properties, "required": required });
            if let Some(others) = others {
                schema["additionalProperties"] = others;
            }
            schema
        },
    )
}

/// A tool of this name under one of the scopes.
fn tool(name: &'static str) -> impl Strategy<Value = Value> {
    let parts = (object_schema(value_schema().boxed()), 0..SCOPES.len(), any::<bool>());
    parts.prop_map(move |(schema, scope, required)| {
        let tool = with(sample()["tools"][0].clone(), "/name", json!(name));
        let tool = with(with(tool, "/input_schema", schema), "/permission_scope", json!(SCOPES[scope]));
        with(tool, "/required", json!(required))
    })
}

/// A manifest with some of the tools, and the scopes they need.
fn manifest() -> impl Strategy<Value = Value> {
    let tools: Vec<_> = NAMES.map(|name| prop::option::of(tool(name))).into();
    let sensitivities = prop::collection::vec(0..3_usize, SCOPES.len());
    (tools, sensitivities, subsequence(SCOPES.to_vec(), 0..=SCOPES.len())).prop_map(
        |(tools, sensitivities, extra)| {
            let tools: Vec<Value> = tools.into_iter().flatten().collect();
            let needed =
                |id: &str| extra.contains(&id) || tools.iter().any(|tool| tool["permission_scope"] == id);
            let scopes = SCOPES.iter().zip(&sensitivities).filter(|(id, _)| needed(id));
            let scopes: Vec<Value> =
                scopes.map(|(id, sensitivity)| scope(id, ["low", "medium", "high"][*sensitivity])).collect();
            let whole = with(sample(), "/permission_scopes", json!(scopes));
            with(whole, "/tools", json!(tools))
        },
    )
}

/// The manifest without some of its tools, and without the scopes that nothing needs any more.
fn reduced(manifest: &Value, keep: u8) -> Value {
    let kept = |n: usize| keep & (1 << n) != 0;
    let tools = manifest["tools"].as_array().unwrap().iter().enumerate();
    let tools: Vec<Value> = tools.filter(|(n, _)| kept(*n)).map(|(_, tool)| tool.clone()).collect();
    let used: BTreeSet<&str> = tools.iter().filter_map(|tool| tool["permission_scope"].as_str()).collect();
    let scopes = manifest["permission_scopes"].as_array().unwrap().iter().enumerate();
    let scopes = scopes.filter(|(n, scope)| kept(n + 4) || used.contains(scope["id"].as_str().unwrap()));
    let scopes: Vec<Value> = scopes.map(|(_, scope)| scope.clone()).collect();
    with(with(manifest.clone(), "/permission_scopes", json!(scopes)), "/tools", json!(tools))
}

fn sensitivity_of(manifest: &Manifest, tool: &str) -> Option<Sensitivity> {
    Some(manifest.scope(&manifest.tool(tool)?.permission_scope)?.sensitivity)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_changed_is_not_breaking_and_has_no_reasons(manifest in manifest()) {
        let manifest = parsed(&manifest);
        let comparison = compare(&manifest, &manifest.clone());
        prop_assert!(!comparison.breaking() && comparison.reasons.is_empty());
    }

    #[test]
    fn removing_is_never_breaking(manifest in manifest(), keep in any::<u8>()) {
        let (old, new) = (parsed(&manifest), parsed(&reduced(&manifest, keep)));
        let comparison = compare(&old, &new);
        prop_assert!(!comparison.breaking(), "{:?}", comparison.reasons);
        prop_assert!(comparison.reasons.iter().all(|reason| reason.rule == "R7"));
    }

    #[test]
    fn any_two_manifests_have_one_report(old in manifest(), new in manifest()) {
        let (old, new) = (parsed(&old), parsed(&new));
        let comparison = compare(&old, &new);
        prop_assert_eq!(&comparison, &compare(&old, &new));
        prop_assert_eq!(comparison.reasons.is_empty(), old.hash() == new.hash());
        let breaking: BTreeSet<&str> = comparison
            .reasons
            .iter()
            .filter(|reason| reason.breaking)
            .filter_map(|reason| reason.scope.as_deref())
            .collect();
        let scopes: Vec<&str> = comparison.scopes_requiring_reauth.iter().map(String::as_str).collect();
        prop_assert_eq!(scopes, breaking.into_iter().collect::<Vec<_>>());
        for scope in new.scopes().iter().filter(|scope| old.scope(&scope.id).is_none()) {
            prop_assert!(comparison.scopes_requiring_reauth.contains(&scope.id), "R6");
        }
        for tool in new.tools().iter().filter(|tool| old.tool(&tool.name).is_some()) {
            if sensitivity_of(&old, &tool.name) < sensitivity_of(&new, &tool.name) {
                prop_assert!(comparison.scopes_requiring_reauth.contains(&tool.permission_scope), "R5");
            }
        }
    }
}
