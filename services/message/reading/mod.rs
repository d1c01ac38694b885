//! Reading: who reads, pages of an inbox, messages with a ttl, whose they are, and how far an agent has read.

mod account;
pub(super) mod consumer;
pub(super) mod page;
mod peers;
mod read;
mod read_state;
pub(super) mod read_states;
pub(super) mod reminders;
pub(super) mod scan;
pub(super) mod volatile;
