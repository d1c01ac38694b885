//! The signed list of trusted roots.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;

/// `ca.get_trust_roots`: get the signed list of trusted roots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetTrustRoots {}

impl Request for GetTrustRoots {
    const METHOD: &'static str = "ca.get_trust_roots";
    type Result = TrustList;
}

/// `ca.add_trust_root`: trust the root of another operator.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddTrustRoot {
    pub certificate: String,
    pub domains: Option<Vec<String>>,
    pub any_domain: Option<bool>,
}

impl Request for AddTrustRoot {
    const METHOD: &'static str = "ca.add_trust_root";
    type Result = AddedTrustRoot;
}

/// A root that is trusted now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddedTrustRoot {
    pub added: bool,
    pub id: String,
    pub name: String,
    pub fingerprint_sha256: String,
    pub domains: Vec<String>,
}

/// `ca.remove_trust_root`: trust the root of another operator no longer.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoveTrustRoot {
    pub fingerprint: Option<String>,
    pub id: Option<String>,
}

impl Request for RemoveTrustRoot {
    const METHOD: &'static str = "ca.remove_trust_root";
    type Result = RemovedTrustRoot;
}

/// A root that is no longer trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemovedTrustRoot {
    pub removed: bool,
    pub id: String,
    pub name: String,
    pub fingerprint_sha256: String,
}

/// The signed list of trusted roots.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrustList {
    pub version: i64,
    pub issued_at: String,
    pub next_update: String,
    pub authority_signature: String,
    pub authority_cert_pem: Option<String>,
    pub root_cas: Vec<ListedRoot>,
}

/// One root of a trust list.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListedRoot {
    pub id: String,
    pub name: Option<String>,
    pub organization: Option<String>,
    pub certificate: String,
    pub fingerprint_sha256: String,
    pub valid_from: Option<String>,
    pub valid_until: Option<String>,
    pub added_at: Option<String>,
    pub status: String,
    pub domains: Option<Vec<String>>,
    pub crl_url: Option<String>,
    pub ocsp_url: Option<String>,
}
