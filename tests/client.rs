//! Agents in Rust: what a person types to be one, and the crate that a program uses.

pub mod agent_cli;
mod demo;
mod directory;
mod identity;
mod library;
mod messages;
mod task_watching;
mod tasks;
