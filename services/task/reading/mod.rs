//! Calls that read tasks.

mod account;
mod assigned;
mod children;
mod get;
mod list;

pub(super) use assigned::FollowedAgents;
