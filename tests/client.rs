//! What a person types to be an agent, and what they see.

mod demo;
mod identity;
mod mail;
mod person;
