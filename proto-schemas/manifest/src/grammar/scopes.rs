//! The scopes of a manifest.

use super::members::ObjectCheck;
use super::names::{is_i18n_key, is_scope_id};
use crate::model::Sensitivity;
use crate::refusal::{Violations, rule};
use crate::texts::preset_sensitivity;
use serde_json::Value;
use std::collections::BTreeSet;

/// What only the platform may declare.
const RESERVED: [&str; 2] = ["hashee:", "system:"];

const LABEL_CHARS: usize = 120;
const DESCRIPTION_CHARS: usize = 500;

pub(super) fn check(scopes: &[Value], found: &mut Violations) {
    let mut ids = BTreeSet::new();
    for (n, scope) in scopes.iter().enumerate() {
        let Some(mut scope) = ObjectCheck::new(scope, format!("/permission_scopes/{n}"), found) else {
            continue;
        };
        let id = check_id(&mut scope, &mut ids);
        for (name, required) in [("label_i18n_key", true), ("description_i18n_key", false)] {
            let key = if required { scope.text(name) } else { scope.optional_text(name) };
            check_key(&mut scope, name, key);
        }
        check_sensitivity(&mut scope, id);
        // A scope that is refused for its id gets no second refusal for the texts it would need.
        let needs_texts = id.is_some_and(|id| preset_sensitivity(id).is_none());
        check_fallback(&mut scope, "label_fallback", LABEL_CHARS, needs_texts);
        check_fallback(&mut scope, "description_fallback", DESCRIPTION_CHARS, needs_texts);
    }
}

/// The id, if it may be used.
fn check_id<'m>(scope: &mut ObjectCheck<'m, '_>, ids: &mut BTreeSet<&'m str>) -> Option<&'m str> {
    let id = scope.text("id")?;
    if !is_scope_id(id) {
        scope.refuse("id", rule::FORMAT, "id must be a domain and an action, such as filesystem:read");
        return None;
    }
    if RESERVED.iter().any(|prefix| id.starts_with(prefix)) {
        scope.refuse("id", rule::RESERVED_SCOPE, format!("{id} is reserved for the platform"));
        return None;
    }
    if !ids.insert(id) {
        scope.refuse("id", rule::UNIQUE, format!("{id} is declared already"));
    }
    Some(id)
}

fn check_sensitivity(scope: &mut ObjectCheck<'_, '_>, id: Option<&str>) {
    let Some(text) = scope.text("sensitivity") else { return };
    let Some(sensitivity) = Sensitivity::parse(text) else {
        scope.refuse("sensitivity", rule::VALUE, "sensitivity must be low, medium or high");
        return;
    };
    let Some((id, preset)) = id.and_then(|id| Some((id, preset_sensitivity(id)?))) else { return };
    if sensitivity < preset {
        let message = format!("{id} is at least {preset}, and {sensitivity} is lower");
        scope.refuse("sensitivity", rule::PRESET_SENSITIVITY, message);
    }
}

fn check_fallback(scope: &mut ObjectCheck<'_, '_>, name: &str, most: usize, needed: bool) {
    match scope.optional_text(name).map(|text| text.chars().count()) {
        Some(count) if !(1..=most).contains(&count) => {
            scope.refuse(name, rule::LENGTH, format!("{name} must have 1 to {most} characters"));
        }
        None if needed && !scope.has(name) => {
            let message =
                format!("{name} is missing: the scope is not preset, so clients have no text for it");
            scope.refuse(name, rule::FALLBACK_REQUIRED, message);
        }
        _ => {}
    }
}

/// For the keys of scopes and tools alike.
pub(super) fn check_key(object: &mut ObjectCheck<'_, '_>, name: &str, key: Option<&str>) {
    if key.is_some_and(|key| !is_i18n_key(key)) {
        let message = format!("{name} must have 1 to 200 characters of A-Z, a-z, 0-9, '_', '.' and '-'");
        object.refuse(name, rule::FORMAT, message);
    }
}
