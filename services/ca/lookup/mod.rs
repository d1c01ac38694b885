//! Certificates that are asked for: one, the chain above it, and whether a chain is valid.

pub(crate) mod get_cert;
pub(crate) mod get_cert_chain;
pub(crate) mod verify_chain;
