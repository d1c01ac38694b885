//! The stores of the services: their databases, and what they count.

mod db;
pub mod json_rows;
mod stats;
#[cfg(test)]
pub(crate) mod test_tables;

pub use db::{Db, Durability, Engine, StoreUrl};
pub use stats::{StoreStats, Stores, Tally};
