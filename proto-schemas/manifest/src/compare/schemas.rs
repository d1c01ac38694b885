//! Two schemas of arguments, part by part.

use super::change::{SchemaChange, SchemaPair};
use super::keywords;
use super::steps::ComparisonSteps;
use super::view::SchemaView;
use crate::schema::LocalReferences;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ptr;

/// All changes, sorted by path and rule, each once. References are followed, and the path of what one leads to is its own.
pub(super) fn changes(old: &Value, new: &Value, steps: &mut ComparisonSteps) -> BTreeSet<SchemaChange> {
    let (old_references, new_references) = (LocalReferences::new(old), LocalReferences::new(new));
    let (mut found, mut compared) = (BTreeSet::new(), HashSet::new());
    // A list in place of recursion: a chain of references may be longer than a stack is deep.
    let mut pending: Vec<SchemaPair<'_>> = vec![(old, new, Cow::Borrowed(""))];
    while let Some((old, new, path)) = pending.pop() {
        if !compared.insert((ptr::from_ref(old), ptr::from_ref(new))) {
            continue;
        }
        let old = SchemaView::new(old, path.clone(), &old_references);
        let new = SchemaView::new(new, path, &new_references);
        steps.take(old.members() + new.members());
        if !steps.are_over() {
            keywords::compare(&old, &new, steps, &mut found);
        }
        if steps.are_over() {
            // Nobody writes that, and it counts as breaking.
            found.insert(SchemaChange { path: String::new(), rule: "R2", breaking: true });
            break;
        }
        pending.extend(keywords::pairs_inside(&old, &new));
    }
    found
}
