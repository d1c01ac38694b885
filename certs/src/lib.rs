//! X.509 for `aund`, and nothing else: who signs whom, for how long, and who may no longer.
//!
//! An [`Authority`] is a CA certificate with its key: it issues certificates, and signs which are revoked.
//! An [`Identity`] is a leaf with its key: it signs. [`verify_chain`] decides whether a chain from a leaf to a root is valid.
//!
//! This crate reads no file, no setting and no clock: `now` always comes in, in unix seconds. The private keys
//! and every signature are made by `ring`.

mod certificate;
mod curve;
pub mod dev;
mod domains;
mod encoding;
mod error;
mod identity;
mod issue;
mod key;
mod revocation;
pub mod roots;
mod verify;

pub use certificate::{Certificate, parse_serial};
pub use curve::Curve;
pub use domains::{RootDomains, is_domain};
pub use encoding::json::canonical_json;
pub use error::CertError;
pub use identity::Identity;
pub use issue::{Authority, Urls};
pub use key::{Key, PublicKey};
pub use revocation::ocsp::{OcspRefusal, OcspStatus};
pub use revocation::ocsp_request::{OcspCertificate, OcspRequest};
pub use revocation::revocation_answer::{RevocationAnswerError, VerifiedStatus, verify_crl, verify_ocsp};
pub use revocation::revoke::{Reason, Revoked};
pub use verify::{ChainError, verified_path, verify_chain};
