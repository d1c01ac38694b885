//! The stores of the services: their databases, commits that many writes share, leases, and what they count.

mod batch;
mod db;
pub mod json_rows;
mod lease;
mod statements;
mod stats;
#[cfg(test)]
pub(crate) mod test_tables;

pub use batch::{Batch, BatchError};
pub use db::{Db, Durability, Engine, StoreUrl, is_disk_full};
pub use lease::{Lease, Leases};
pub use statements::Statements;
pub use stats::{StoreStats, Stores, Tally};
