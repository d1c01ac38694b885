//! Agents in Rust: what a person types to be one, and the crate that a program uses.

pub mod agent_cli;
mod demo;
mod directory;
mod identity;
mod library;
mod messages;
mod runs;
mod task_watching;
mod tasks;

/// For the server that these tests share. Commands all come from 127.0.0.1, and some are run again and again until the directory has
/// taken over what was published.
pub const HIGH_LIMITS: &str = "limits.connects_per_second = 60000\nlimits.http_per_second = 60000\n\
    limits.registrations_per_minute = 60000\nlimits.logins_per_minute = 60000\n\
    limits.login_failures_per_minute = 60000\nlimits.login_failures_per_prefix = 60000\n\
    limits.classes.\"auth.refresh\" = 60000\nlimits.classes.\"search.query\" = 60000\n\
    limits.classes.\"search.get\" = 60000";
