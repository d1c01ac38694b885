//! The stores of the services: their databases, and what they count.

mod db;
mod stats;

pub use db::{Db, Durability, Engine, StoreUrl};
pub use stats::{StoreStats, Stores, Tally};
