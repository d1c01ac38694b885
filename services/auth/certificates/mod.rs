//! The certificate of an agent: another for the same key or for a new one, and the one it has.

mod download_cert;
mod rekey;
mod renew_cert;
mod request_cert;
mod revoke_cert;
