//! Whether a domain has taken its word back: its gateway is asked about the certificate, and its list is read.
//!
//! Where neither can be asked the certificate counts as good: a domain whose status service is down is not a domain
//! whose keys were stolen. A "revoked" always counts.

use super::Federation;
use super::fetch;
use super::well_known::Place;
use certs::Certificate;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_millis(1500);
const ANSWER_BYTES: usize = 64 << 10;
const LIST_BYTES: usize = 1 << 20;
/// Lists are signed for longer than this, so none is used past its time.
const LIST_FRESH: Duration = Duration::from_secs(600);
/// A peer that is dialled again soon is not asked about again.
const GOOD_FRESH: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 1_000;

#[derive(Default)]
pub struct Revocation {
    /// By fingerprint: until when the certificate needs no asking.
    good: Mutex<HashMap<String, Instant>>,
    /// By domain: the serials it has revoked, and until when the list is used.
    lists: Mutex<HashMap<String, (Instant, HashSet<String>)>>,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
}

#[derive(Deserialize)]
struct List {
    revoked_serials: Vec<String>,
}

impl Revocation {
    pub async fn is_revoked(
        &self,
        fed: &Federation,
        issuer: &str,
        at: &Place,
        certificate: &Certificate,
    ) -> bool {
        let now = Instant::now();
        if self.good.lock().get(certificate.fingerprint()).is_some_and(|until| now < *until) {
            return false;
        }
        let status = self.ask(fed, issuer, at, certificate).await;
        let revoked = match status.as_deref() {
            Some("good") => false,
            Some("revoked") => true,
            _ => match self.listed(fed, issuer, at, certificate.serial()).await {
                Some(listed) => listed,
                // Nobody can be asked: not remembered either, so that the next link asks again.
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

    async fn ask(
        &self,
        fed: &Federation,
        issuer: &str,
        at: &Place,
        certificate: &Certificate,
    ) -> Option<String> {
        let path = format!("/pki/ocsp/{}", certificate.serial());
        let text = fetch::get(fed, issuer, (&at.host, at.port), &path, ANSWER_BYTES, PATIENCE).await.ok()?;
        serde_json::from_slice(&text).ok().map(|answer: Answer| answer.status)
    }

    async fn listed(&self, fed: &Federation, issuer: &str, at: &Place, serial: &str) -> Option<bool> {
        let now = Instant::now();
        let kept =
            |(until, serials): &(Instant, HashSet<String>)| (now < *until).then(|| serials.contains(serial));
        if let Some(listed) = self.lists.lock().get(issuer).and_then(kept) {
            return Some(listed);
        }
        let text =
            fetch::get(fed, issuer, (&at.host, at.port), "/pki/crl.json", LIST_BYTES, PATIENCE).await.ok()?;
        let list: List = serde_json::from_slice(&text).ok()?;
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
