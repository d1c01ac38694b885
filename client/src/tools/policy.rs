//! Whether a tool is used.

use super::answer::{DenialReason, ToolAnswer, ToolErrorCode, ToolOutcome};
use super::audit::{AuditEntry, AuditTrail};
use super::call::ReceivedToolCall;
use super::consents::{ConfirmedScope, DayConsents};
use super::entry_file::locked;
use super::prompt::{ConsentPrompt, ConsentQuestion, ConsentReply};
use crate::chance;
use crate::error::Error;
use crate::home::LocalAgent;
use manifest::{ArgumentValidator, Manifest, Scope, Sensitivity, Tool};
use std::path::PathBuf;
use std::time::Duration;

/// How long a question about a scope of high sensitivity stands.
const CONFIRM_MS: i64 = 30_000;

/// How long a tool may take at most, whatever the call says.
const LONGEST_TIMEOUT_MS: u64 = 600_000;

/// What the user of a device knows of an agent: its manifest, and what was granted to it.
#[derive(Clone, Copy)]
pub struct ToolGrant<'g> {
    /// The manifest that the user consented to, or a later one that needs no fresh consent.
    pub manifest: &'g Manifest,
    /// The ids of the scopes that are granted.
    pub granted: &'g [String],
}

/// What happens with a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolDecision {
    /// The tool is used now, and then [`ToolPolicy::finish`] is called.
    Permitted(PermittedCall),
    /// The tool is not used, and the agent gets this answer.
    Answered(ToolAnswer),
    /// The tool is not used, and nobody is told.
    Ignored(IgnoredCall),
}

/// A call that may be executed, once.
#[derive(Clone, Debug, PartialEq)]
pub struct PermittedCall {
    /// The call.
    pub call: ReceivedToolCall,
    /// How long the tool may take: what the call says, else what the manifest says.
    pub timeout_ms: u64,
}

/// Why a call gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredCall {
    /// Its envelope does not say that it is a tool call, so that the server could not count it.
    Disguised,
    /// It was taken up already.
    Duplicate,
}

/// Decides on the tool calls that reach one device.
pub struct ToolPolicy {
    folder: PathBuf,
    trail: AuditTrail,
    consents: DayConsents,
    clock: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl ToolPolicy {
    /// For an agent of this machine, in its folder, by the clock of the machine.
    pub fn of(agent: &LocalAgent) -> ToolPolicy {
        ToolPolicy::new(agent.folder().join("tools"), || chance::now() * 1000)
    }

    /// In a folder of its own. `clock` gives unix milliseconds.
    pub fn new(folder: impl Into<PathBuf>, clock: impl Fn() -> i64 + Send + Sync + 'static) -> ToolPolicy {
        let folder = folder.into();
        ToolPolicy {
            trail: AuditTrail::new(&folder),
            consents: DayConsents::new(folder.join("consents.json")),
            folder,
            clock: Box::new(clock),
        }
    }

    /// Decides on a call, and asks the person if that is needed.
    pub fn decide(
        &self,
        call: &ReceivedToolCall,
        grant: &ToolGrant<'_>,
        prompt: &mut dyn ConsentPrompt,
    ) -> Result<ToolDecision, Error> {
        if !call.is_marked {
            return Ok(ToolDecision::Ignored(IgnoredCall::Disguised));
        }
        if !locked(&self.folder, || self.trail.take_up(call, (self.clock)()))? {
            return Ok(ToolDecision::Ignored(IgnoredCall::Duplicate));
        }
        let refusal = match permitted_tool(call, grant) {
            Ok((tool, scope)) => match self.refused(call, tool, scope, prompt)? {
                None => {
                    let timeout_ms = call.timeout_ms.unwrap_or(tool.timeout_ms).min(LONGEST_TIMEOUT_MS);
                    return Ok(ToolDecision::Permitted(PermittedCall { call: call.clone(), timeout_ms }));
                }
                Some(reason) => ToolOutcome::Denied(reason),
            },
            Err(outcome) => outcome,
        };
        self.answer(call, refusal).map(ToolDecision::Answered)
    }

    /// The answer to a call that was executed, or that this device cannot execute.
    pub fn finish(&self, permitted: PermittedCall, outcome: ToolOutcome) -> Result<ToolAnswer, Error> {
        self.answer(&permitted.call, outcome)
    }

    /// What was decided in the last 30 days, the oldest first.
    pub fn audit(&self) -> Result<Vec<AuditEntry>, Error> {
        self.trail.entries((self.clock)())
    }

    /// The entry is written first: an answer that cannot be accounted for is not given.
    fn answer(&self, call: &ReceivedToolCall, outcome: ToolOutcome) -> Result<ToolAnswer, Error> {
        locked(&self.folder, || self.trail.add(call, outcome.status(), (self.clock)()))?;
        Ok(ToolAnswer { call_id: call.call_id.clone(), outcome })
    }

    /// What the sensitivity of the scope asks for. None if the tool may be used.
    fn refused(
        &self,
        call: &ReceivedToolCall,
        tool: &Tool,
        scope: &Scope,
        prompt: &mut dyn ConsentPrompt,
    ) -> Result<Option<DenialReason>, Error> {
        let mut ask = |within: Option<i64>| {
            let within = within.map(|ms| Duration::from_millis(ms.unsigned_abs()));
            let (agent, arguments) = (call.agent.as_str(), &call.arguments);
            prompt.ask(&ConsentQuestion { agent, tool, scope, arguments, within })
        };
        match scope.sensitivity {
            Sensitivity::Low => Ok(None),
            Sensitivity::Medium => {
                let confirmed = ConfirmedScope {
                    agent_id: call.agent.to_string(),
                    conversation: call.conversation.clone(),
                    scope: scope.id.clone(),
                };
                if locked(&self.folder, || self.consents.use_silently(&confirmed, (self.clock)()))? {
                    return Ok(None);
                }
                if ask(None) != ConsentReply::Confirmed {
                    return Ok(Some(DenialReason::UserRefused));
                }
                locked(&self.folder, || self.consents.confirm(&confirmed, (self.clock)()))?;
                Ok(None)
            }
            Sensitivity::High => {
                let asked = (self.clock)();
                let reply = ask(Some(CONFIRM_MS));
                let late = (self.clock)() - asked > CONFIRM_MS;
                Ok(match reply {
                    ConsentReply::Confirmed if !late => None,
                    ConsentReply::Refused if !late => Some(DenialReason::UserRefused),
                    _ => Some(DenialReason::UserTimeout),
                })
            }
        }
    }
}

/// The checks that need nobody to be asked, in the order of the protocol.
fn permitted_tool<'g>(
    call: &ReceivedToolCall,
    grant: &ToolGrant<'g>,
) -> Result<(&'g Tool, &'g Scope), ToolOutcome> {
    let denied = |reason| Err(ToolOutcome::Denied(reason));
    if call.in_group {
        return denied(DenialReason::ToolNotSupportedInGroup);
    }
    let Some(tool) = grant.manifest.tool(&call.tool_name) else {
        return denied(DenialReason::ToolNotDeclared);
    };
    let is_granted = grant.granted.contains(&tool.permission_scope);
    let Some(scope) = grant.manifest.scope(&tool.permission_scope).filter(|_| is_granted) else {
        return denied(DenialReason::ScopeNotGranted);
    };
    if call.permission_scope.as_ref() != Some(&tool.permission_scope) {
        return denied(DenialReason::ScopeNotGranted);
    }
    // A manifest that was accepted has no schema that cannot be used; if it had, no arguments would be valid.
    let is_valid = call.arguments.is_object()
        && ArgumentValidator::new(&tool.input_schema).is_ok_and(|schema| schema.accepts(&call.arguments));
    if !is_valid {
        let message = Some(format!("the arguments do not fit the input_schema of {}", tool.name));
        return Err(ToolOutcome::Error { code: ToolErrorCode::ToolInvalidArguments, message });
    }
    Ok((tool, scope))
}
