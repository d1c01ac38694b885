//! Every method as a type: a struct of its parameters, named after it, and a struct of its result. `ca.get_cert` is
//! [`ca::GetCert`], and it answers a [`ca::KnownCertificate`].
//!
//! Who calls and who answers have the same types, so a text that has rules has a name (`Aid`), and what is passed on unread is a
//! `RawValue`. What a member means is written in the method's schema file; the tests of this crate hold each type against its
//! schema, in both directions.
//!
//! A namespace has its signals here, too: what its service tells the other processes of the server.

// `namespace_modules!`, which declares a module for each namespace.
include!(concat!(env!("OUT_DIR"), "/modules.rs"));

namespace_modules!();

mod signature;

pub use signature::ClientSignature;
