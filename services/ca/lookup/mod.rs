//! Certificates that are asked for: one, the chain above it, and whether a chain is valid.

mod get_cert;
mod get_cert_chain;
mod verify_chain;
