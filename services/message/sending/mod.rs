//! Sending: parameters and answer, the inboxes a message goes to, the order of lookups, messages with a ttl, tool calls.

pub(super) mod address;
pub(super) mod echo;
mod json_members;
pub(super) mod lookup_queue;
pub(super) mod params;
pub(super) mod tool_call;
pub(super) mod volatile;
