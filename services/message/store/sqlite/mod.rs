//! SQLite: one task writes the log, and the index is written behind it.

mod append;
mod index;
pub(super) mod seen_filter;
pub(super) mod unindexed;
pub(super) mod writer;
