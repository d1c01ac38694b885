//! The tools of a manifest.

use super::members::ObjectCheck;
use super::names::is_tool_name;
use super::scopes::check_key;
use crate::refusal::{Violations, rule};
use crate::schema::{self, SchemaTotals};
use serde_json::Value;
use std::collections::BTreeSet;

const LONGEST_TIMEOUT_MS: u64 = 600_000;

/// `scopes` are those that the manifest declares.
pub(super) fn check(tools: &[Value], scopes: &BTreeSet<&str>, found: &mut Violations) {
    let (mut names, mut totals) = (BTreeSet::new(), SchemaTotals::default());
    for (n, tool) in tools.iter().enumerate() {
        let Some(mut tool) = ObjectCheck::new(tool, format!("/tools/{n}"), found) else { continue };
        check_name(&mut tool, &mut names);
        let key = tool.text("description_i18n_key");
        check_key(&mut tool, "description_i18n_key", key);
        check_schema(&mut tool, &mut totals);
        if let Some(scope) = tool.text("permission_scope")
            && !scopes.contains(scope)
        {
            let message = format!("{scope} is not among permission_scopes");
            tool.refuse("permission_scope", rule::UNDECLARED_SCOPE, message);
        }
        tool.flag("required");
        tool.integer("timeout_ms", 1, LONGEST_TIMEOUT_MS);
    }
}

fn check_name<'m>(tool: &mut ObjectCheck<'m, '_>, names: &mut BTreeSet<&'m str>) {
    let Some(name) = tool.text("name") else { return };
    if !is_tool_name(name) {
        let message = "name must have 2 to 32 characters of a-z, 0-9 and '_' and begin with a-z";
        tool.refuse("name", rule::FORMAT, message);
    } else if !names.insert(name) {
        tool.refuse("name", rule::UNIQUE, format!("{name} is declared already"));
    }
}

/// Any JSON Schema: whether arguments can fit it is for its author to decide, who is warned where none can.
fn check_schema(tool: &mut ObjectCheck<'_, '_>, totals: &mut SchemaTotals) {
    let Some(input) = tool.required("input_schema") else { return };
    let (path, found) = tool.inside("input_schema");
    if !matches!(input, Value::Object(_) | Value::Bool(_)) {
        found.add(path, rule::TYPE, "input_schema must be a JSON Schema: an object, or true or false");
        return;
    }
    schema::check(input, &path, totals, found);
}
