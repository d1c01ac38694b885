//! The security contract of a device whose user has granted scopes to an agent: what happens when the agent asks for a tool.
//!
//! ```no_run
//! # fn example(message: &serde_json::Value, agent: &client::LocalAgent, manifest: &manifest::Manifest) -> Result<(), client::Error> {
//! # let mut person = |_: &client::tools::ConsentQuestion<'_>| client::tools::ConsentReply::Refused;
//! # let run = |_: &client::tools::PermittedCall| client::tools::ToolOutcome::unavailable();
//! use client::tools::{ReceivedToolCall, ToolDecision, ToolGrant, ToolPolicy};
//!
//! let policy = ToolPolicy::of(agent);
//! let grant = ToolGrant { manifest, granted: &["filesystem:read".to_owned()] };
//! if let Some(call) = ReceivedToolCall::read(message)? {
//!     let answer = match policy.decide(&call, &grant, &mut person)? {
//!         ToolDecision::Permitted(call) => {
//!             let outcome = run(&call);
//!             policy.finish(call, outcome)?
//!         }
//!         ToolDecision::Answered(answer) => answer,
//!         ToolDecision::Ignored(_) => return Ok(()),
//!     };
//!     println!("{}", answer.payload());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The server relays tool calls without reading them, so that everything is checked here, in an order that the protocol fixes: not in a
//! group, declared in the manifest, granted, with valid arguments, and confirmed as its sensitivity asks for. Each decision is in the
//! audit trail before its answer is given out.

mod answer;
mod audit;
mod call;
mod consents;
mod entry_file;
mod policy;
mod prompt;

#[cfg(test)]
mod tests;

pub use answer::{ANSWER_SUBTYPE, CONTENT_TYPE, DenialReason, ToolAnswer, ToolErrorCode, ToolOutcome};
pub use audit::AuditEntry;
pub use call::ReceivedToolCall;
pub use policy::{IgnoredCall, PermittedCall, ToolDecision, ToolGrant, ToolPolicy};
pub use prompt::{ConsentPrompt, ConsentQuestion, ConsentReply};
pub use proto_schemas::tool_call::CALL_SUBTYPE;
