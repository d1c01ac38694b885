//! The rules for one schema, and the schemas inside it that are compared next.

use super::change::{SchemaChange, SchemaPair};
use super::steps::{ChoicesChange, ComparisonSteps};
use super::view::{OtherProperties, SchemaView};
use crate::pointer::join;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Keywords that have a rule of their own, or lead to schemas that are compared.
const RULED: [&str; 15] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "definitions",
    "enum",
    "items",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
];

const LISTED: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: [&str; 2] = ["patternProperties", "properties"];

/// What a new member of `allOf` is compared with: before it was there, everything was allowed.
static ANYTHING: Value = Value::Bool(true);

/// Finds the changes of one schema, without the schemas inside it.
pub(super) fn compare(
    old: &SchemaView<'_>,
    new: &SchemaView<'_>,
    steps: &mut ComparisonSteps,
    found: &mut BTreeSet<SchemaChange>,
) {
    let mut tell = |path: String, rule: &'static str, breaking: bool| {
        found.insert(SchemaChange { path, rule, breaking });
    };
    let (required_before, required_now) = (old.required(), new.required());
    for (name, path) in &required_now {
        if !required_before.contains_key(name) {
            tell(join(&join(path, "properties"), name), "R1", true);
        }
    }
    for name in required_before.keys().filter(|name| !required_now.contains_key(*name)) {
        tell(join(&join(new.path_of("required"), "properties"), name), "R10", false);
    }
    if old.types() != new.types() {
        tell(join(new.path_of("type"), "type"), "R2", true);
    }
    if let Some((rule, breaking)) = other_properties(&old.other_properties(), &new.other_properties()) {
        tell(join(new.path_of("additionalProperties"), "additionalProperties"), rule, breaking);
    }
    for (rule, breaking) in choices(old, new, steps) {
        let keyword = if new.value("const").is_some() { "const" } else { "enum" };
        tell(join(new.path_of(keyword), keyword), rule, breaking);
    }
    for keyword in others(old, new) {
        let equal = match (old.value(keyword), new.value(keyword)) {
            (Some(before), Some(now)) => steps.is_equal(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !equal {
            tell(join(new.path_of(keyword), keyword), "R10", false);
        }
    }
    one_sided(old, new, &mut |path| tell(path, "R10", false));
}

/// The schemas that both sides have at the same path.
pub(super) fn pairs_inside<'s>(old: &SchemaView<'s>, new: &SchemaView<'s>) -> Vec<SchemaPair<'s>> {
    let mut pairs = Vec::new();
    for keyword in NAMED {
        let before = old.named(keyword);
        for (name, (part, now)) in new.named(keyword) {
            if let Some((_, before)) = before.get(name) {
                pairs.push((*before, now, Cow::Owned(join(&join(&part.path, keyword), name))));
            }
        }
    }
    if let (OtherProperties::Fitting(before), OtherProperties::Fitting(now)) =
        (old.other_properties(), new.other_properties())
    {
        let path = join(new.path_of("additionalProperties"), "additionalProperties");
        pairs.push((before, now, Cow::Owned(path)));
    }
    if let (Some(before), Some((part, now))) = (old.value("items"), new.first("items")) {
        pairs.push((before, now, Cow::Owned(join(&part.path, "items"))));
    }
    for keyword in LISTED {
        let (before, path) = (old.listed(keyword), join(new.path_of(keyword), keyword));
        for (n, now) in new.listed(keyword).iter().enumerate() {
            let before = before.get(n).or((keyword == "allOf").then_some(&ANYTHING));
            pairs.extend(before.map(|before| (before, now, Cow::Owned(join(&path, &n.to_string())))));
        }
    }
    pairs
}

/// R3, R3b and R3c.
fn other_properties(old: &OtherProperties<'_>, new: &OtherProperties<'_>) -> Option<(&'static str, bool)> {
    use OtherProperties::{Any, Fitting, Refused};
    match (old, new) {
        (Any, Refused) => Some(("R3", true)),
        (Any, Fitting(_)) | (Fitting(_), Refused) => Some(("R3b", true)),
        (Refused, Any | Fitting(_)) | (Fitting(_), Any) => Some(("R3c", false)),
        (Any, Any) | (Refused, Refused) | (Fitting(_), Fitting(_)) => None,
    }
}

/// R4, R4b and R4c.
fn choices(
    old: &SchemaView<'_>,
    new: &SchemaView<'_>,
    steps: &mut ComparisonSteps,
) -> Vec<(&'static str, bool)> {
    let (before, now) = match (old.choices(), new.choices()) {
        (None, None) => return Vec::new(),
        (None, Some(_)) => return vec![("R4b", true)],
        (Some(_), None) => return vec![("R4c", false)],
        (Some(before), Some(now)) => (before, now),
    };
    let ChoicesChange { gone, added } = steps.choices_change(before, now);
    gone.then_some(("R4", true)).into_iter().chain(added.then_some(("R4c", false))).collect()
}

/// The keywords of both sides that have no rule of their own.
fn others<'s>(old: &SchemaView<'s>, new: &SchemaView<'s>) -> BTreeSet<&'s str> {
    let both = old.keywords().chain(new.keywords());
    both.filter(|keyword| !RULED.contains(keyword)).collect()
}

/// Schemas that only one side has.
fn one_sided(old: &SchemaView<'_>, new: &SchemaView<'_>, tell: &mut dyn FnMut(String)) {
    for keyword in NAMED {
        let (before, now) = (old.named(keyword), new.named(keyword));
        for (name, (part, _)) in &now {
            if !before.contains_key(name) {
                tell(join(&join(&part.path, keyword), name));
            }
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            tell(join(&join(new.path_of(keyword), keyword), name));
        }
    }
    if old.value("items").is_some() != new.value("items").is_some() {
        tell(join(new.path_of("items"), "items"));
    }
    for keyword in LISTED {
        if old.listed(keyword).len() != new.listed(keyword).len() {
            tell(join(new.path_of(keyword), keyword));
        }
    }
}
