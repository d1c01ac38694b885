//! Tools: those of the same name are compared, and a renamed tool is one that was removed and one that is new.

use super::change::SchemaChange;
use super::report::{ChangeReason, ChangeReport};
use super::schemas;
use super::steps::ComparisonSteps;
use crate::manifest::Manifest;
use crate::model::{Sensitivity, Tool};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn compare(old: &Manifest, new: &Manifest, report: &mut ChangeReport) {
    let (before, after) = (by_name(old), by_name(new));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let mut steps = ComparisonSteps::default();
    for name in names {
        match (before.get(name), after.get(name)) {
            (Some(_), None) => report.add(ChangeReason::harmless("R7").tool(name)),
            (None, Some(tool)) => {
                // Under a new scope it is told by R6 already.
                let declared = old.scope(&tool.permission_scope).is_some();
                let rule = if declared { "R8" } else { "R10" };
                report.add(ChangeReason::harmless(rule).tool(name).scope(&tool.permission_scope));
            }
            (Some(before), Some(after)) => {
                let rises = sensitivity(old, before) < sensitivity(new, after);
                compare_tool(before, after, rises, &mut steps, report);
            }
            (None, None) => {}
        }
    }
}

fn compare_tool(old: &Tool, new: &Tool, rises: bool, steps: &mut ComparisonSteps, report: &mut ChangeReport) {
    let mut tell = |reason: ChangeReason| report.add(reason.tool(&new.name).scope(&new.permission_scope));
    if rises {
        tell(ChangeReason::breaking("R5"));
    } else if old.permission_scope != new.permission_scope {
        tell(ChangeReason::harmless("R10").path("/permission_scope"));
    }
    match (old.required, new.required) {
        (false, true) => tell(ChangeReason::breaking("R9")),
        (true, false) => tell(ChangeReason::harmless("R10").path("/required")),
        _ => {}
    }
    if old.description_i18n_key != new.description_i18n_key {
        tell(ChangeReason::harmless("R10").path("/description_i18n_key"));
    }
    if old.timeout_ms != new.timeout_ms {
        tell(ChangeReason::harmless("R10").path("/timeout_ms"));
    }
    if old.input_schema != new.input_schema {
        let changes = schemas::changes(&old.input_schema, &new.input_schema, steps);
        if changes.is_empty() {
            // Written in another way, or where no reference leads.
            tell(ChangeReason::harmless("R10").path("/input_schema"));
        }
        for SchemaChange { path, rule, breaking } in changes {
            let reason = if breaking { ChangeReason::breaking(rule) } else { ChangeReason::harmless(rule) };
            tell(reason.path(format!("/input_schema{path}")));
        }
    }
}

/// How sensitive a call of the tool is: as its scope is.
fn sensitivity(manifest: &Manifest, tool: &Tool) -> Option<Sensitivity> {
    manifest.scope(&tool.permission_scope).map(|scope| scope.sensitivity)
}

fn by_name(manifest: &Manifest) -> BTreeMap<&str, &Tool> {
    manifest.tools().iter().map(|tool| (tool.name.as_str(), tool)).collect()
}
