//! Capability manifests: what a person types to check one, and the schemas of arguments as others see them.

mod commands;
mod fetched;
mod pairs;
mod suite;
