//! What `ca` tells the other processes.

use serde::{Deserialize, Serialize};

use crate::Signal;

/// `ca.cert_revoked`: a certificate was revoked. Its owner may be a service, whose name is not an AID.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CertRevoked {
    pub aid: String,
}

impl Signal for CertRevoked {
    const NAME: &'static str = "ca.cert_revoked";
}

/// `ca.cert_replaced`: a certificate was replaced by a new one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CertReplaced {
    pub aid: String,
}

impl Signal for CertReplaced {
    const NAME: &'static str = "ca.cert_replaced";
}

/// `ca.trust_changed`: the list of trusted roots changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrustChanged {}

impl Signal for TrustChanged {
    const NAME: &'static str = "ca.trust_changed";
}
