//! PostgreSQL, where several processes may write: a commit is one call of a function in the database.

mod batch;
mod in_transaction;
mod insert;
pub(super) mod last_seqs;
mod recall;
mod with_seqs;
mod without_seqs;
pub(super) mod writer;
