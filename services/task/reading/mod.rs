//! Calls that read tasks.

mod children;
mod get;
mod list;
