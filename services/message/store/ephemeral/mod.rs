//! What is stored for a while: messages with a ttl, the content of queue messages, thoughts. In memory on SQLite; on
//! PostgreSQL in a table, where all processes find it.

pub(crate) mod bounded;
pub(crate) mod queue_messages;
pub(crate) mod shared_rows;
pub(crate) mod volatile;
