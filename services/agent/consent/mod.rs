//! What becomes of grants when a manifest changes, and which grants are possible.
//!
//! Only this server decides whether users have to be asked again; they are marked in the transaction that stores the manifest, so
//! that an offline user learns of it, too.

pub(super) mod facts;
pub(super) mod manifests;
pub(super) mod notices;

use super::Error;
use super::store::agents::WriteTx;
use super::store::relations::{self, PAGE, RelationRow};
use facts::ConsentFacts;
use manifests::DecidedChange;
use std::collections::BTreeSet;

/// The most scopes that a manifest may declare.
const MOST_SCOPES: usize = 64;
/// The id of a scope: 32 characters on each side of its colon.
const SCOPE_BYTES: usize = 65;

/// Takes what is not declared any more out of all grants, and marks those whose users have to be asked.
pub(super) async fn apply(
    tx: &mut WriteTx,
    agent_id: &str,
    decided: &DecidedChange,
    now: i64,
) -> sqlx::Result<()> {
    if !decided.change.breaking && !decided.removes_scopes {
        return Ok(());
    }
    // Where no scope is gone, only those that wait for an answer already have to be looked at one by one.
    let only_pending = !decided.removes_scopes;
    let mut after = String::new();
    loop {
        let page = relations::page_of(tx, agent_id, &after, only_pending).await?;
        for row in &page {
            if let Some(changed) = after_change(row, decided, now) {
                relations::put(tx, &changed).await?;
            }
        }
        match page.last() {
            Some(last) if page.len() as i64 == PAGE => after.clone_from(&last.id),
            _ => break,
        }
    }
    if only_pending {
        let scopes = scopes_json(&decided.change.scopes_requiring_reauth);
        relations::mark_all(tx, agent_id, decided.change.to_version, &scopes, now).await?;
    }
    Ok(())
}

/// A relation after a change, if it is another one then.
fn after_change(row: &RelationRow, decided: &DecidedChange, now: i64) -> Option<RelationRow> {
    let declared = |scopes: &str| -> BTreeSet<String> {
        scopes_of(scopes).into_iter().filter(|scope| decided.declared.contains(scope)).collect()
    };
    let mut changed = row.clone();
    changed.granted_scopes = scopes_json(declared(&row.granted_scopes));
    let mut asked = declared(&row.reauth_scopes);
    if decided.change.breaking {
        asked.extend(decided.change.scopes_requiring_reauth.iter().cloned());
        changed.reauth_required = 1;
        changed.reauth_manifest_version = Some(decided.change.to_version);
    }
    changed.reauth_scopes = scopes_json(asked);
    let same =
        (
            &changed.granted_scopes,
            &changed.reauth_scopes,
            changed.reauth_required,
            changed.reauth_manifest_version,
        ) == (&row.granted_scopes, &row.reauth_scopes, row.reauth_required, row.reauth_manifest_version);
    if same {
        return None;
    }
    changed.updated_at = now;
    Some(changed)
}

/// The scopes of a grant, sorted and each once, if the agent declares them all and has what it requires.
pub(super) fn granted(facts: &ConsentFacts, wanted: Vec<String>) -> Result<Vec<String>, Error> {
    if wanted.len() > MOST_SCOPES {
        return Err(Error::Bad("granted_scopes must have 64 scopes at most"));
    }
    // No manifest declares a longer one, and those that are not declared are repeated in the answer.
    if wanted.iter().any(|scope| scope.len() > SCOPE_BYTES) {
        return Err(Error::Bad("a scope in granted_scopes must have 65 bytes at most"));
    }
    let wanted: BTreeSet<String> = wanted.into_iter().collect();
    let declared: BTreeSet<&str> = facts.scopes.iter().map(String::as_str).collect();
    let unknown: Vec<String> =
        wanted.iter().filter(|scope| !declared.contains(scope.as_str())).cloned().collect();
    if !unknown.is_empty() {
        return Err(Error::ScopeNotDeclared(unknown));
    }
    let missing: Vec<_> = facts.required.iter().filter(|needs| !wanted.contains(&needs.scope)).collect();
    if !missing.is_empty() {
        let scopes: BTreeSet<String> = missing.iter().map(|needs| needs.scope.clone()).collect();
        return Err(Error::ScopeRequired {
            tools: missing.iter().map(|needs| needs.tool.clone()).collect(),
            scopes: scopes.into_iter().collect(),
        });
    }
    Ok(wanted.into_iter().collect())
}

/// A stored list.
pub(super) fn scopes_of(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

/// The same as it is stored.
pub(super) fn scopes_json<S: AsRef<str>>(scopes: impl IntoIterator<Item = S>) -> String {
    let scopes: Vec<String> = scopes.into_iter().map(|scope| scope.as_ref().to_owned()).collect();
    serde_json::Value::from(scopes).to_string()
}
