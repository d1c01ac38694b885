//! Issuing certificates, and revoking them.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{Aid, Request};

/// `ca.issue_cert`: issue an agent's certificate.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IssueCert {
    pub aid: Aid,
    pub public_key: String,
    pub curve: KeyCurve,
    pub key_purpose: Option<String>,
    pub additional: Option<bool>,
}

impl Request for IssueCert {
    const METHOD: &'static str = "ca.issue_cert";
    type Result = IssuedCertificate;
}

/// The curve of a key.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum KeyCurve {
    #[serde(rename = "P-256")]
    P256,
    #[serde(rename = "P-384")]
    P384,
}

impl KeyCurve {
    /// The protocol's name of the curve.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyCurve::P256 => "P-256",
            KeyCurve::P384 => "P-384",
        }
    }
}

/// `ca.issue_service_cert`: issue a certificate for one of the server's own services.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IssueServiceCert {
    pub name: String,
    pub public_key: String,
    pub curve: KeyCurve,
    pub key_purpose: Option<ServiceKeyPurpose>,
    pub replaces: Option<String>,
    pub dns_names: Option<Vec<String>>,
    pub ips: Option<Vec<String>>,
}

impl Request for IssueServiceCert {
    const METHOD: &'static str = "ca.issue_service_cert";
    type Result = IssuedCertificate;
}

/// What tells two keys of a service apart that are on one curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKeyPurpose {
    Login,
}

/// `ca.renew_cert`: issue a new certificate for the same key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RenewCert {
    pub aid: Aid,
    pub old_serial: String,
}

impl Request for RenewCert {
    const METHOD: &'static str = "ca.renew_cert";
    type Result = IssuedCertificate;
}

/// `ca.rekey_cert`: issue a certificate for a new key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RekeyCert {
    pub aid: Aid,
    pub old_serial: String,
    pub public_key: String,
}

impl Request for RekeyCert {
    const METHOD: &'static str = "ca.rekey_cert";
    type Result = IssuedCertificate;
}

/// `ca.revoke_cert`: revoke one certificate, or all of an AID.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RevokeCert {
    pub serial: Option<String>,
    pub aid: Option<Aid>,
    pub reason: Option<String>,
}

impl Request for RevokeCert {
    const METHOD: &'static str = "ca.revoke_cert";
    type Result = RevokedCertificates;
}

/// The certificates that are revoked now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RevokedCertificates {
    pub revoked: bool,
    pub aid: String,
    pub serials: Vec<String>,
}

/// A certificate that was issued, and what is above it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IssuedCertificate {
    pub aid: String,
    pub cert: String,
    pub ca_cert: String,
    pub cert_chain: Vec<String>,
    pub cert_sn: String,
    pub fingerprint: String,
    pub curve: String,
    pub replaced_sn: Option<String>,
    /// True where the same key already held the name and nothing was signed.
    pub existing: Option<bool>,
}
