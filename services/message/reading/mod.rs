//! Reading: who reads, pages of an inbox, messages with a ttl, and how far an agent has read.

pub(super) mod consumer;
pub(super) mod page;
pub(super) mod read_states;
pub(super) mod scan;
pub(super) mod volatile;
