//! `agent.*` and `h2a.*`: what agents publish about themselves, their manifests, and what users grant them.

mod agent_md;
pub mod agents_http;
mod consent;
mod webhook_messages;
