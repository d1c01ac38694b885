//! Registered agents: who owns them, what they declare, and where they are told of events.

mod checks;
mod create;
mod delete;
mod deliveries;
mod get;
mod list;
mod proof;
mod record;
mod rotate_token;
mod tokens;
mod update;
mod verify_token;
