//! Two schemas of arguments, part by part.

use super::change::{SchemaChange, SchemaPair};
use super::keywords;
use super::view::SchemaView;
use crate::schema::LocalReferences;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ptr;

/// So many pairs of parts are compared. Two cycles of references whose lengths have no common factor make more pairs than the
/// manifests have bytes; nobody writes that, and it counts as breaking.
const MOST_PAIRS: usize = 20_000;

/// All changes, sorted by path and rule, each once. References are followed, and the path of what one leads to is its own.
pub(super) fn changes(old: &Value, new: &Value) -> BTreeSet<SchemaChange> {
    let (old_references, new_references) = (LocalReferences::new(old), LocalReferences::new(new));
    let (mut found, mut compared) = (BTreeSet::new(), HashSet::new());
    // A list in place of recursion: a chain of references may be longer than a stack is deep.
    let mut pending: Vec<SchemaPair<'_>> = vec![(old, new, Cow::Borrowed(""))];
    while let Some((old, new, path)) = pending.pop() {
        if !compared.insert((ptr::from_ref(old), ptr::from_ref(new))) {
            continue;
        }
        if compared.len() > MOST_PAIRS {
            found.insert(SchemaChange { path: String::new(), rule: "R2", breaking: true });
            break;
        }
        let old = SchemaView::new(old, path.clone(), &old_references);
        let new = SchemaView::new(new, path, &new_references);
        keywords::compare(&old, &new, &mut found);
        pending.extend(keywords::pairs_inside(&old, &new));
    }
    found
}
