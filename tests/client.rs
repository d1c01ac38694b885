//! What a person types to be an agent, and what they see.

mod agent_cli;
mod demo;
mod identity;
mod messages;
