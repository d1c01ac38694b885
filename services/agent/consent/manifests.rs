//! What a manifest means for the agent that has it: its next version, what the directory finds it by, and how it differs from the one
//! before.

use super::facts::ConsentFacts;
use crate::store::agents::AgentRow;
use crate::{AgentService, Error};
use kernel::{Caller, CpuOwner};
use manifest::{Manifest, WARNED_BYTES};
use proto_schemas::requests::agent::{ManifestChange, ManifestChangeReason, ManifestNote};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an agent declares that has no manifest yet. Every scope of its first one is new to its users.
const NOTHING: &str = r#"{"schema_version":"1.0","agent_version":"0.0.0","tools":[],"permission_scopes":[],"capability_flags":{}}"#;

impl AgentService {
    /// The manifest of a call, with duplicate keys and all as it was sent; none where it was left out.
    pub(crate) async fn accept_manifest(
        &self,
        caller: &Caller,
        sent: Option<Option<Box<RawValue>>>,
    ) -> Result<Option<Arc<Manifest>>, Error> {
        let Some(sent) = sent else { return Ok(None) };
        let text = sent.ok_or(Error::ManifestNull)?;
        let parsed = self.cpu.run(CpuOwner::of(caller), move || Manifest::parse(text.get())).await?;
        Ok(Some(Arc::new(parsed?)))
    }

    /// What a new manifest changes for the users of an agent as it is now; none if it is the one that the agent has.
    pub(crate) async fn decide(
        &self,
        caller: &Caller,
        agent: &AgentRow,
        new: &Arc<Manifest>,
    ) -> Result<Option<DecidedChange>, Error> {
        if agent.manifest_hash.as_deref() == Some(new.hash()) {
            return Ok(None);
        }
        let (version, old, new) = (agent.manifest_version, agent.manifest.clone(), new.clone());
        let deciding = self.cpu.run(CpuOwner::of(caller), move || decide(version, old.as_deref(), &new));
        Ok(Some(deciding.await??))
    }
}

/// What could be better about it, if anything.
pub(crate) fn notes(manifest: &Manifest) -> Option<Vec<ManifestNote>> {
    let notes: Vec<ManifestNote> = manifest
        .warnings()
        .iter()
        .map(|warning| ManifestNote { path: warning.path.clone(), message: warning.message.clone() })
        .collect();
    (!notes.is_empty()).then_some(notes)
}

/// Gives an agent its next manifest.
pub(crate) fn set(agent: &mut AgentRow, manifest: &Manifest) {
    if manifest.canonical().len() >= WARNED_BYTES {
        tracing::warn!(
            aid = agent.aid.as_str(),
            bytes = manifest.canonical().len(),
            "the manifest of an agent is large"
        );
    }
    agent.manifest = Some(manifest.canonical().to_owned());
    agent.manifest_version += 1;
    agent.manifest_hash = Some(manifest.hash().to_owned());
    agent.manifest_facts = Some(facts(manifest));
    agent.consent_facts = Some(ConsentFacts::of(manifest).text());
}

/// The names of its tools and the ids of its scopes.
fn facts(manifest: &Manifest) -> String {
    let tools = manifest.tools().iter().map(|tool| tool.name.as_str());
    tools.chain(scope_ids(manifest)).collect::<Vec<_>>().join(" ")
}

fn scope_ids(manifest: &Manifest) -> impl Iterator<Item = &str> {
    manifest.scopes().iter().map(|scope| scope.id.as_str())
}

/// What changes for users when an agent gets another manifest.
pub(crate) struct DecidedChange {
    pub change: ManifestChange,
    /// The scopes that are declared from now on.
    pub declared: BTreeSet<String>,
    /// Whether one that was declared is not any more.
    pub removes_scopes: bool,
}

/// Compares the manifest that an agent has with its next one. A stored one that cannot be read any more counts as none: its owner
/// must be able to replace it.
fn decide(version: i64, old: Option<&str>, new: &Manifest) -> Result<DecidedChange, Error> {
    let old = match old.map(Manifest::accepted) {
        Some(Ok(old)) => old,
        Some(Err(_)) | None => Manifest::parse(NOTHING)?,
    };
    let comparison = manifest::compare(&old, new);
    let breaking = comparison.breaking();
    let reasons = comparison.reasons.into_iter().map(|reason| ManifestChangeReason {
        rule: reason.rule.to_owned(),
        breaking: reason.breaking,
        tool: reason.tool,
        path: reason.path,
        scope: reason.scope,
    });
    let declared: BTreeSet<String> = scope_ids(new).map(str::to_owned).collect();
    Ok(DecidedChange {
        change: ManifestChange {
            from_version: version,
            to_version: version + 1,
            hash: new.hash().to_owned(),
            breaking,
            reasons: reasons.collect(),
            scopes_requiring_reauth: comparison.scopes_requiring_reauth,
        },
        removes_scopes: scope_ids(&old).any(|scope| !declared.contains(scope)),
        declared,
    })
}
