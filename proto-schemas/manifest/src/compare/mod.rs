//! Which changes of a manifest need fresh consent. Only a server decides it; clients believe what they are told.
//!
//! The report is the same for the same two manifests: scopes by their ids, then tools by their names, then the paths of schemas in
//! lexical order.

mod change;
mod keywords;
mod report;
mod schemas;
mod steps;
mod tools;
mod view;

#[cfg(test)]
mod tests;

use super::manifest::Manifest;
use super::model::Scope;
use report::ChangeReport;
pub use report::{ChangeReason, ManifestComparison};
use std::collections::{BTreeMap, BTreeSet};

/// What changed from one manifest to another, rule by rule, and whose consent has to be asked for again.
pub fn compare(old: &Manifest, new: &Manifest) -> ManifestComparison {
    let mut report = ChangeReport::default();
    if old.hash() != new.hash() {
        compare_scopes(old, new, &mut report);
        tools::compare(old, new, &mut report);
        if report.is_empty() {
            // Flags, the version of the agent, or members that the grammar does not know.
            report.add(ChangeReason::harmless("R10"));
        }
    }
    report.finish()
}

fn compare_scopes(old: &Manifest, new: &Manifest, report: &mut ChangeReport) {
    let (before, after) = (by_id(old), by_id(new));
    let ids: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    for id in ids {
        match (before.get(id), after.get(id)) {
            (None, Some(_)) => report.add(ChangeReason::breaking("R6").scope(id)),
            (Some(_), None) => report.add(ChangeReason::harmless("R7").scope(id)),
            // A sensitivity that rises is told of the tools that it concerns, by R5.
            (Some(before), Some(after)) if before != after => {
                report.add(ChangeReason::harmless("R10").scope(id));
            }
            _ => {}
        }
    }
}

fn by_id(manifest: &Manifest) -> BTreeMap<&str, &Scope> {
    manifest.scopes().iter().map(|scope| (scope.id.as_str(), scope)).collect()
}
