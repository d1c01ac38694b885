//! `ca.*`: the certificates of the domain over HTTP, their status, and what a revocation ends.

mod ocsp;
mod pki;
mod removal;
mod revocation;
