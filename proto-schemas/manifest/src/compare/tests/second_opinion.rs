//! `json-schema-diff` looks at the same pairs of schemas. Where it says that a property became required, that a value left an enum, or
//! that a type is not allowed any more, we say breaking.
//!
//! Where it cannot agree:
//! - An enum that is dropped: it lists its values as removed, and for us nothing is narrowed (R4c).
//! - A type that is added: harmless for it, breaking for us (R2), because a person consented to another one.
//! - Bounds, patterns and formats: it calls some of them breaking, and for us they are R10.
//! - Properties that come or go: it asks whether others are allowed, and for us they are R10 unless they are required.
//! - `prefixItems`, `$ref` with other members beside it, `$anchor`, `patternProperties` and recursive references: it knows the keywords
//!   of draft 7, and follows no reference back to where it is.
//! - Scopes, sensitivity and `required` of a tool: it knows schemas only.

use super::super::schemas::changes;
use super::super::steps::ComparisonSteps;
use json_schema_diff::{ChangeKind, diff};
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

fn is_clearly_breaking(change: &ChangeKind) -> bool {
    match change {
        ChangeKind::RequiredAdd { .. } | ChangeKind::TypeRemove { .. } => true,
        ChangeKind::EnumRemove { rhs_has_no_enum, .. } => !rhs_has_no_enum,
        _ => false,
    }
}

fn is_breaking(old: &Value, new: &Value) -> bool {
    changes(old, new, &mut ComparisonSteps::default()).iter().any(|change| change.breaking)
}

/// A value of one type, so that both know which it is.
fn value_schema() -> impl Strategy<Value = Value> {
    let simple = prop_oneof![
        prop::sample::select(vec!["string", "integer", "number", "boolean"])
            .prop_map(|name| json!({ "type": name })),
        subsequence(vec!["a", "b", "c"], 1..=3)
            .prop_map(|values| json!({ "type": "string", "enum": values })),
    ];
    simple.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            object_schema(inner.clone().boxed()),
            inner.prop_map(|items| json!({ "type": "array", "items": items })),
        ]
    })
}

fn object_schema(inner: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let names = || subsequence(vec!["p", "q", "r"], 0..=3);
    (prop::collection::vec(inner, 3), names(), names(), prop::option::of(any::<bool>())).prop_map(
        |(schemas, named, required, others)| {
            let properties: serde_json::Map<String, Value> =
                named.iter().zip(schemas).map(|(name, schema)| ((*name).to_owned(), schema)).collect();
            let mut schema = json!({ "type": "object", "properties": properties, "required": required });
            if let Some(others) = others {
                schema["additionalProperties"] = json!(others);
            }
            schema
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_it_calls_clearly_breaking_is_breaking(
        old in object_schema(value_schema().boxed()),
        new in object_schema(value_schema().boxed()),
    ) {
        let said = diff(old.clone(), new.clone()).unwrap();
        if let Some(change) = said.iter().find(|change| is_clearly_breaking(&change.change)) {
            prop_assert!(is_breaking(&old, &new), "{:?}: {} {}", change, old, new);
        }
    }
}

#[test]
fn where_it_cannot_agree_is_as_listed() {
    let property = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
    let said = |old: &Value, new: &Value| {
        diff(old.clone(), new.clone()).unwrap().iter().any(|change| change.change.is_breaking())
    };
    let (listed, free) = (json!({ "type": "string", "enum": ["a"] }), json!({ "type": "string" }));
    let removed = diff(property(listed.clone()), property(free.clone())).unwrap();
    assert!(removed.iter().any(|change| matches!(change.change, ChangeKind::EnumRemove { .. })));
    assert!(!is_breaking(&property(listed), &property(free.clone())));

    let wider = json!({ "type": ["string", "null"] });
    assert!(is_breaking(&property(free.clone()), &property(wider)));

    let bounded = property(json!({ "type": "string", "maxLength": 1 }));
    assert!(said(&property(free.clone()), &bounded) && !is_breaking(&property(free), &bounded));
}
