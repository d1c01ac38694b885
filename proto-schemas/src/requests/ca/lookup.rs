//! Looking certificates up, and their state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;

/// `ca.get_cert`: look up a certificate.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetCert {
    pub aid: Option<String>,
    pub cert_fingerprint: Option<String>,
    pub serial: Option<String>,
    pub key_purpose: Option<String>,
    pub curve: Option<String>,
    pub consistency: Option<String>,
}

impl Request for GetCert {
    const METHOD: &'static str = "ca.get_cert";
    type Result = KnownCertificate;
}

impl GetCert {
    /// The current certificate of an AID.
    pub fn of_aid(aid: &str) -> GetCert {
        GetCert { aid: Some(aid.to_owned()), ..GetCert::default() }
    }
}

/// A certificate and its state, if there is one.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownCertificate {
    pub found: bool,
    pub cert: Option<String>,
    pub aid: Option<String>,
    pub lifecycle_state: Option<String>,
    pub fingerprint: Option<String>,
    pub serial: Option<String>,
    pub not_before: Option<i64>,
    pub not_after: Option<i64>,
    pub deactivated_at: Option<i64>,
    pub consistency: Option<String>,
    pub observed_at: Option<String>,
}

/// `ca.get_cert_chain`: get the chain above every certificate of this issuer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetCertChain {}

impl Request for GetCertChain {
    const METHOD: &'static str = "ca.get_cert_chain";
    type Result = IssuerCertChain;
}

/// The chain above every certificate of the issuer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IssuerCertChain {
    pub chain: String,
    pub certs: Vec<String>,
}

/// `ca.get_crl`: get the list of revoked certificates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetCrl {
    /// Whose list; the issuer's where it is left out.
    pub of: Option<CrlSigner>,
}

/// Who signed a list of revoked certificates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrlSigner {
    Issuer,
    Registry,
    Root,
}

impl Request for GetCrl {
    const METHOD: &'static str = "ca.get_crl";
    type Result = RevocationList;
}

/// A list of revoked certificates, signed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RevocationList {
    pub crl_pem: String,
    pub revoked_serials: Vec<String>,
}

/// `ca.ocsp_query`: get the signed status of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OcspQuery {
    pub serial: String,
}

impl Request for OcspQuery {
    const METHOD: &'static str = "ca.ocsp_query";
    type Result = CertificateStatus;
}

/// The status of a certificate, signed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateStatus {
    pub status: String,
    pub ocsp_response: String,
}

/// `ca.verify_chain`: verify a certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyChain {
    pub cert: String,
}

impl Request for VerifyChain {
    const METHOD: &'static str = "ca.verify_chain";
    type Result = VerifiedCertificate;
}

/// Whether a certificate is valid, or why not.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifiedCertificate {
    pub valid: bool,
    pub reason: Option<String>,
}

/// `ca.ended_agents`: list agents whose AID was revoked or whose name lapsed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndedAgents {
    pub since: i64,
    pub after_aid: Option<String>,
    pub limit: Option<i64>,
}

impl Request for EndedAgents {
    const METHOD: &'static str = "ca.ended_agents";
    type Result = EndedAgentsPage;
}

/// Agents whose AID was revoked or whose name lapsed, in the order in which that came to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndedAgentsPage {
    pub agents: Vec<EndedAgent>,
    pub has_more: bool,
}

/// An agent that has no certificate left that it could use or renew, and since when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndedAgent {
    pub aid: String,
    pub ended_at: i64,
}

/// `ca.status`: get the number of certificates in each state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {}

impl Request for Status {
    const METHOD: &'static str = "ca.status";
    type Result = CertificateCounts;
}

/// How many certificates are in each state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateCounts {
    pub issuer: String,
    pub certificates: BTreeMap<String, i64>,
}
