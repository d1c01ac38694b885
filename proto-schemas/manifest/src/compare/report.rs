//! What a comparison tells the owner of an agent.

use serde::Serialize;
use serde_with::skip_serializing_none;
use std::collections::BTreeSet;

/// At most so many reasons are listed.
const LISTED: usize = 500;

/// What changed between two manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ManifestComparison {
    /// The changes, at most 500 of them.
    pub reasons: Vec<ChangeReason>,
    /// The scopes that have to be granted again, sorted, each once.
    pub scopes_requiring_reauth: Vec<String>,
}

/// One change, and the rule that says whether it is breaking.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeReason {
    /// `R1` to `R10`, with the kinds of R3 and R4 as `R3b` and so on.
    pub rule: &'static str,
    /// Whether the change needs fresh consent.
    pub breaking: bool,
    /// The tool that changed.
    pub tool: Option<String>,
    /// A JSON Pointer inside the tool.
    pub path: Option<String>,
    /// The scope that changed, or that of the tool.
    pub scope: Option<String>,
}

impl ManifestComparison {
    /// Whether whoever granted scopes is asked again.
    pub fn breaking(&self) -> bool {
        // Every breaking change has a scope, also one that is not listed any more.
        !self.scopes_requiring_reauth.is_empty()
    }
}

impl ChangeReason {
    pub(super) fn breaking(rule: &'static str) -> ChangeReason {
        ChangeReason { rule, breaking: true, tool: None, path: None, scope: None }
    }

    pub(super) fn harmless(rule: &'static str) -> ChangeReason {
        ChangeReason { breaking: false, ..ChangeReason::breaking(rule) }
    }

    pub(super) fn tool(self, name: &str) -> ChangeReason {
        ChangeReason { tool: Some(name.to_owned()), ..self }
    }

    pub(super) fn path(self, path: impl Into<String>) -> ChangeReason {
        ChangeReason { path: Some(path.into()), ..self }
    }

    pub(super) fn scope(self, id: &str) -> ChangeReason {
        ChangeReason { scope: Some(id.to_owned()), ..self }
    }
}

/// The report while it is made.
#[derive(Default)]
pub(super) struct ChangeReport {
    reasons: Vec<ChangeReason>,
    scopes: BTreeSet<String>,
}

impl ChangeReport {
    pub fn add(&mut self, reason: ChangeReason) {
        if reason.breaking {
            self.scopes.extend(reason.scope.clone());
        }
        if self.reasons.len() < LISTED {
            self.reasons.push(reason);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    pub fn finish(self) -> ManifestComparison {
        let scopes_requiring_reauth = self.scopes.into_iter().collect();
        ManifestComparison { reasons: self.reasons, scopes_requiring_reauth }
    }
}
