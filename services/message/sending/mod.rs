//! Sending: parameters and answer, the inboxes a message goes to, the order of lookups, how large a message may be,
//! messages with a ttl, tool calls.

pub(super) mod address;
pub(super) mod echo;
pub(super) mod lookup_queue;
pub(super) mod params;
pub(super) mod row_limit;
pub(super) mod tool_call;
pub(super) mod volatile;
