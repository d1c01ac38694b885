//! Registered agents: who owns them, what they declare, and where they are told of events.

mod account;
mod checks;
mod create;
mod delete;
mod deliveries;
mod get;
mod list;
mod proof;
mod record;
mod rotate_token;
mod test_webhook;
mod tokens;
mod update;
mod verify_token;
