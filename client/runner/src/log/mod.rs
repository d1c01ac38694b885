//! What a runner writes: events of the log, acknowledgements and ends of commands, in one order.

mod batch;
mod entry;
mod outbox;
mod partial;
mod payload;
mod writer;

pub(crate) use entry::{EntryBatch, LogEntry, LogReport};
pub(crate) use outbox::RunnerOutbox;
pub(crate) use payload::EventPayloads;
pub(crate) use writer::RunLogWriter;
