//! What a domain of the test answers about the certificate of its gateway.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::dev::Pki;
use certs::{Authority, OcspStatus};
use serde_json::json;

use super::fake_peer::DAY;
use crate::support::now;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FakeStatus {
    /// Its authority has signed that it does not know the certificate.
    Unknown,
    /// An answer "good" that another authority of the same name has signed.
    Forged,
    /// No answer, and a list without the certificate that another authority of the same name has signed.
    ForgedList,
}

impl FakeStatus {
    /// The body for a path; nothing if it is not found.
    pub fn answer(self, pki: &Pki, path: &str) -> Option<String> {
        let serial = path.strip_prefix("/pki/ocsp/");
        let namesake = || Pki::new(pki.issuer.certificate().common_name(), now() - DAY);
        match (self, serial) {
            (FakeStatus::Unknown, Some(serial)) => Some(ocsp(&pki.issuer, serial, OcspStatus::Unknown)),
            (FakeStatus::Forged, Some(serial)) => Some(ocsp(&namesake().issuer, serial, OcspStatus::Good)),
            (FakeStatus::ForgedList, None) if path == "/pki/crl.json" => {
                let list = namesake().issuer.crl(&[], 1, now(), now() + DAY).expect("a list");
                Some(json!({ "crl_pem": list, "revoked_serials": [] }).to_string())
            }
            _ => None,
        }
    }
}

fn ocsp(authority: &Authority, serial: &str, status: OcspStatus) -> String {
    let der = authority.ocsp(serial, status, now(), now() + 3600).expect("an answer");
    json!({ "status": status.as_str(), "ocsp_response": STANDARD.encode(der) }).to_string()
}
