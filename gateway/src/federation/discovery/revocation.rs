//! Whether a domain stands by the certificate of its gateway: its OCSP status is asked for, and otherwise its revocation list
//! is read.
//!
//! If neither can be fetched the certificate counts as good: a domain whose status service is down is not a domain whose
//! keys were stolen. What is fetched counts only with the signature of the authority of the domain, and what is not signed
//! is a refusal: whoever answers in its name does not want the question answered. So is "unknown": an authority knows
//! what it has signed.

use super::fetch;
use super::well_known::PeerGatewayUrl;
use crate::federation::Federation;
use crate::federation::trust::PeerGateway;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{RevocationAnswerError, VerifiedStatus, verify_crl, verify_ocsp};
use kernel::ExpiringCache;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

const FETCH_TIMEOUT: Duration = Duration::from_millis(1500);
const ANSWER_BYTES: usize = 64 << 10;
const LIST_BYTES: usize = 1 << 20;
/// Lists are valid for longer than this, so none is used after it has expired.
const LIST_FRESH: Duration = Duration::from_secs(600);
/// A peer that is dialled again within this time is not asked about again.
const GOOD_FRESH: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 1_000;

pub struct RevocationCheck {
    /// The fingerprints of certificates that are not asked about again for a while.
    good: Mutex<ExpiringCache<String, ()>>,
    /// By domain and key: the serials its authority has revoked.
    lists: Mutex<ExpiringCache<String, HashSet<String>>>,
}

impl Default for RevocationCheck {
    fn default() -> RevocationCheck {
        RevocationCheck {
            good: Mutex::new(ExpiringCache::new(REMEMBERED, GOOD_FRESH)),
            lists: Mutex::new(ExpiringCache::new(REMEMBERED, LIST_FRESH)),
        }
    }
}

/// Why a certificate is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationRefusal {
    Revoked,
    /// Its authority does not know it.
    Unknown,
    /// An answer came that its authority did not sign, or that is of another day.
    Unverified(RevocationAnswerError),
}

impl RevocationRefusal {
    /// What the other gateway is told.
    pub fn reason(self) -> &'static str {
        match self {
            RevocationRefusal::Revoked => "revoked",
            RevocationRefusal::Unknown => "unknown",
            RevocationRefusal::Unverified(_) => "status_unverified",
        }
    }

    /// What those are told for whom it was dialled.
    pub fn dial_reason(self) -> &'static str {
        match self {
            RevocationRefusal::Revoked => "certificate_revoked",
            RevocationRefusal::Unknown => "certificate_unknown",
            RevocationRefusal::Unverified(_) => "status_unverified",
        }
    }
}

impl fmt::Display for RevocationRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RevocationRefusal::Revoked => f.write_str("is revoked"),
            RevocationRefusal::Unknown => f.write_str("is not known to the authority of its domain"),
            RevocationRefusal::Unverified(error) => {
                write!(f, "has a status that cannot be verified: {error}")
            }
        }
    }
}

/// The answer itself is in the DER; the word beside it is for clients that cannot read that.
#[derive(Deserialize)]
struct OcspStatusAnswer {
    #[serde(default)]
    ocsp_response: String,
}

#[derive(Deserialize)]
struct RevocationListAnswer {
    #[serde(default)]
    crl_pem: String,
}

impl RevocationCheck {
    pub async fn check(
        &self,
        fed: &Federation,
        at: &PeerGatewayUrl,
        peer: &PeerGateway,
    ) -> Result<(), RevocationRefusal> {
        let now = Instant::now();
        let fingerprint = peer.certificate.fingerprint();
        if self.good.lock().get(fingerprint, now).is_some() {
            return Ok(());
        }
        match self.fetch_status(fed, at, peer).await? {
            Some(VerifiedStatus::Good) => {}
            Some(VerifiedStatus::Revoked) => return Err(RevocationRefusal::Revoked),
            Some(VerifiedStatus::Unknown) => return Err(RevocationRefusal::Unknown),
            None => match self.listed(fed, at, peer).await? {
                Some(true) => return Err(RevocationRefusal::Revoked),
                Some(false) => {}
                // Neither could be fetched. It is not remembered, so that the next link asks again.
                None => return Ok(()),
            },
        }
        self.good.lock().insert(fingerprint.to_owned(), (), now);
        Ok(())
    }

    /// The next question about this certificate is asked, although it was good a moment ago.
    pub fn forget(&self, certificate: &certs::Certificate) {
        self.good.lock().remove(certificate.fingerprint());
    }

    /// What the authority has signed about the certificate; nothing if its domain does not answer.
    async fn fetch_status(
        &self,
        fed: &Federation,
        at: &PeerGatewayUrl,
        peer: &PeerGateway,
    ) -> Result<Option<VerifiedStatus>, RevocationRefusal> {
        let serial = peer.certificate.serial();
        let path = format!("/pki/ocsp/{serial}");
        let fetched =
            fetch::get(fed, &peer.issuer, (&at.host, at.port), &path, ANSWER_BYTES, FETCH_TIMEOUT).await;
        let Ok(text) = fetched else { return Ok(None) };
        let answer: Option<OcspStatusAnswer> = serde_json::from_slice(&text).ok();
        let der = answer.and_then(|answer| STANDARD.decode(answer.ocsp_response).ok()).unwrap_or_default();
        match verify_ocsp(&peer.authority, serial, &der, fed.clock.now_seconds()) {
            Ok(status) => Ok(Some(status)),
            // A responder that says that it cannot answer is one that cannot be asked.
            Err(RevocationAnswerError::NoAnswer) => Ok(None),
            Err(error) => Err(RevocationRefusal::Unverified(error)),
        }
    }

    /// Whether the certificate is in the list that its authority has signed; nothing if its domain does not answer.
    async fn listed(
        &self,
        fed: &Federation,
        at: &PeerGatewayUrl,
        peer: &PeerGateway,
    ) -> Result<Option<bool>, RevocationRefusal> {
        let (now, serial) = (Instant::now(), peer.certificate.serial());
        // By its key, too: the list of an authority is not that of another one of its name.
        let whose = format!("{} {}", peer.issuer, peer.authority.public_key().fingerprint());
        if let Some(serials) = self.lists.lock().get(&whose, now) {
            return Ok(Some(serials.contains(serial)));
        }
        let fetched =
            fetch::get(fed, &peer.issuer, (&at.host, at.port), "/pki/crl.json", LIST_BYTES, FETCH_TIMEOUT)
                .await;
        let Ok(text) = fetched else { return Ok(None) };
        let answer: Option<RevocationListAnswer> = serde_json::from_slice(&text).ok();
        let pem = answer.map(|answer| answer.crl_pem).unwrap_or_default();
        let serials = verify_crl(&peer.authority, &pem, fed.clock.now_seconds())
            .map_err(RevocationRefusal::Unverified)?;
        let listed = serials.contains(serial);
        self.lists.lock().insert(whose, serials, now);
        Ok(Some(listed))
    }
}
