//! Registering an AID, and its certificates.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::requests::ca::KeyCurve;
use crate::{Aid, Request};

/// `auth.create_aid`: register an AID with a public key and get its certificate.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreateAid {
    pub aid: String,
    pub public_key: String,
    pub curve: Option<String>,
}

impl Request for CreateAid {
    const METHOD: &'static str = "auth.create_aid";
    type Result = RegisteredAid;
}

/// A registered AID and its certificate.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegisteredAid {
    pub aid: Aid,
    pub cert: String,
    pub ca_cert: Option<String>,
    pub curve: Option<String>,
}

/// `auth.download_cert`: fetch a certificate by its serial number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DownloadCert {
    pub cert_sn: String,
}

impl Request for DownloadCert {
    const METHOD: &'static str = "auth.download_cert";
    type Result = CertificateWithChain;
}

/// A certificate and what is above it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateWithChain {
    pub cert: String,
    pub ca_cert: String,
    pub cert_chain: Vec<String>,
}

/// `auth.rekey`: replace a certificate by one for a new key.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rekey {
    pub aid: Aid,
    pub request_id: String,
    pub nonce: String,
    pub new_public_key: String,
    pub signature: String,
    /// That the client holds the new key; SDKs send none.
    pub proof: Option<String>,
    /// Not read: the certificate given to `auth.aid_login1` counts.
    pub old_cert: Option<Box<RawValue>>,
}

impl Request for Rekey {
    const METHOD: &'static str = "auth.rekey";
    type Result = RekeyedCertificate;
}

/// The certificate of the new key.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RekeyedCertificate {
    pub status: String,
    pub cert: String,
    pub ca_cert: Option<String>,
}

/// `auth.renew_cert`: replace a certificate by a new one for the same key.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RenewCert {
    pub aid: Aid,
    pub request_id: String,
    pub nonce: String,
    pub signature: String,
    /// Not read: the certificate given to `auth.aid_login1` counts.
    pub old_cert: Option<Box<RawValue>>,
}

impl Request for RenewCert {
    const METHOD: &'static str = "auth.renew_cert";
    type Result = RenewedCertificate;
}

/// The new certificate of the same key.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RenewedCertificate {
    pub status: String,
    pub cert: String,
    pub ca_cert: Option<String>,
}

/// `auth.request_cert`: get a certificate for another key of one's own AID.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestCert {
    pub aid: Aid,
    pub public_key: String,
    pub curve: KeyCurve,
    // Older clients leave these four out, and are told how to begin.
    #[serde(default)]
    pub request_id: String,
    #[serde(default)]
    pub nonce: String,
    #[serde(default)]
    pub signature: String,
    #[serde(default)]
    pub proof: String,
    pub client_signature: Option<Box<RawValue>>,
}

impl Request for RequestCert {
    const METHOD: &'static str = "auth.request_cert";
    type Result = RequestedCertificate;
}

/// The certificate of another key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestedCertificate {
    pub status: String,
    pub aid: Aid,
    pub cert: String,
    pub ca_cert: String,
    pub curve: String,
}
