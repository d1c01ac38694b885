//! Whether a domain has revoked the certificate of its gateway: its OCSP status is asked for, and otherwise its revocation
//! list is read.
//!
//! If neither can be fetched the certificate counts as good: a domain whose status service is down is not a domain whose
//! keys were stolen. An answer "revoked" always counts.

use super::fetch;
use super::well_known::PeerGatewayUrl;
use crate::federation::Federation;
use certs::Certificate;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
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

#[derive(Default)]
pub struct RevocationCheck {
    /// By fingerprint: until when the certificate is not asked about again.
    good: Mutex<HashMap<String, Instant>>,
    /// By domain: the serials it has revoked, and until when the list is used.
    lists: Mutex<HashMap<String, (Instant, HashSet<String>)>>,
}

#[derive(Deserialize)]
struct OcspStatusAnswer {
    status: String,
}

#[derive(Deserialize)]
struct RevocationListAnswer {
    revoked_serials: Vec<String>,
}

impl RevocationCheck {
    pub async fn is_revoked(
        &self,
        fed: &Federation,
        issuer: &str,
        at: &PeerGatewayUrl,
        certificate: &Certificate,
    ) -> bool {
        let now = Instant::now();
        if self.good.lock().get(certificate.fingerprint()).is_some_and(|until| now < *until) {
            return false;
        }
        let status = self.fetch_status(fed, issuer, at, certificate).await;
        let revoked = match status.as_deref() {
            Some("good") => false,
            Some("revoked") => true,
            _ => match self.listed(fed, issuer, at, certificate.serial()).await {
                Some(listed) => listed,
                // Neither could be fetched. It is not remembered, so that the next link asks again.
                None => return false,
            },
        };
        if !revoked {
            let mut good = self.good.lock();
            if good.len() >= REMEMBERED {
                good.clear();
            }
            good.insert(certificate.fingerprint().to_owned(), now + GOOD_FRESH);
        }
        revoked
    }

    async fn fetch_status(
        &self,
        fed: &Federation,
        issuer: &str,
        at: &PeerGatewayUrl,
        certificate: &Certificate,
    ) -> Option<String> {
        let path = format!("/pki/ocsp/{}", certificate.serial());
        let text =
            fetch::get(fed, issuer, (&at.host, at.port), &path, ANSWER_BYTES, FETCH_TIMEOUT).await.ok()?;
        serde_json::from_slice(&text).ok().map(|answer: OcspStatusAnswer| answer.status)
    }

    async fn listed(
        &self,
        fed: &Federation,
        issuer: &str,
        at: &PeerGatewayUrl,
        serial: &str,
    ) -> Option<bool> {
        let now = Instant::now();
        let kept =
            |(until, serials): &(Instant, HashSet<String>)| (now < *until).then(|| serials.contains(serial));
        if let Some(listed) = self.lists.lock().get(issuer).and_then(kept) {
            return Some(listed);
        }
        let text = fetch::get(fed, issuer, (&at.host, at.port), "/pki/crl.json", LIST_BYTES, FETCH_TIMEOUT)
            .await
            .ok()?;
        let list: RevocationListAnswer = serde_json::from_slice(&text).ok()?;
        let serials: HashSet<String> =
            list.revoked_serials.iter().filter_map(|serial| certs::parse_serial(serial)).collect();
        let listed = serials.contains(serial);
        let mut lists = self.lists.lock();
        if lists.len() >= REMEMBERED {
            lists.clear();
        }
        lists.insert(issuer.to_owned(), (now + LIST_FRESH, serials));
        Some(listed)
    }
}
