//! Calls that read tasks.

mod account;
mod children;
mod get;
mod list;
