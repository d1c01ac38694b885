//! What agents are told of messages: the events after a commit, and the rows that clients read.

pub(super) mod events;
pub(super) mod publisher;
pub(super) mod rows;
