//! The signed list of trusted roots: ours, and those of other operators.

use super::get_cert::rfc3339;
use super::store::{RootChange, RootChangeOutcome, SignedTrustList, TrustRoot};
use super::{Ca, Error};
use crate::kernel::{Audience, Event};
use certs::Certificate;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const LIST_SECONDS: i64 = 24 * 3600;
/// A new list is published when the old one has less than this left.
const LEAD_SECONDS: i64 = 12 * 3600;

/// The folder of roots that were added before there was an authority to sign the list.
const ADDED_EARLY: &str = "trust";

impl Ca {
    pub(super) async fn refresh_trust_list(&self) -> Result<(), Error> {
        let due = match self.store.trust_list().await? {
            Some((_, next_update, document)) => {
                next_update - LEAD_SECONDS <= self.clock.now_seconds() || !names_where_to_ask(&document)
            }
            None => true,
        };
        if due {
            self.change_roots(&RootChange::Renew).await?;
        }
        Ok(())
    }

    pub(super) async fn change_roots(&self, change: &RootChange<'_>) -> Result<RootChangeOutcome, Error> {
        self.store.change_roots(change, |version, roots| self.sign_list(version, roots)).await
    }

    /// Has every gateway read the list again.
    pub(super) fn tell_trust_changed(&self) {
        self.bus.publish(&Event::new(Audience::Gateways, "ca.trust_changed", &json!({})));
    }

    /// Adds the roots that the operator put into the folder before the first start. The file of one that is refused stays
    /// there, and the log names it.
    pub(super) async fn adopt_roots(&self, keys: &Path) -> Result<(), Error> {
        let Ok(files) = fs::read_dir(keys.join(ADDED_EARLY)) else { return Ok(()) };
        for file in files.filter_map(Result::ok).map(|entry| entry.path()) {
            let Ok(pem) = fs::read_to_string(&file) else { continue };
            match self.trust(&pem).await {
                Ok(_) => drop(fs::remove_file(&file)),
                Err(error @ (Error::Store(_) | Error::TrustListContended)) => return Err(error),
                Err(error) => tracing::warn!("{} is not trusted: {error}", file.display()),
            }
        }
        Ok(())
    }

    fn sign_list(&self, version: i64, roots: &[TrustRoot]) -> SignedTrustList {
        let now = self.clock.now_seconds();
        let own = &self.pki.root;
        let mut ours = certs::roots::entry(&self.own_id(), own, own.not_before());
        ours["crl_url"] = json!(self.root_crl_url);
        ours["ocsp_url"] = json!(self.urls.ocsp);
        let theirs = roots.iter().filter_map(|root| entry(root, now));
        let list = json!({
            "version": version,
            "issued_at": rfc3339(now * 1000),
            "next_update": rfc3339((now + LIST_SECONDS) * 1000),
            "authority_cert_pem": self.pki.authority.certificate().pem(),
            "root_cas": std::iter::once(ours).chain(theirs).collect::<Vec<Value>>(),
        });
        let list = certs::roots::sign(list, self.pki.authority.key());
        SignedTrustList { next_update: now + LIST_SECONDS, document: list.to_string() }
    }

    pub(super) fn own_id(&self) -> String {
        format!("root-{}", self.issuer)
    }
}

/// Lists of earlier versions do not say where the revocation list of our root is, and are signed again.
fn names_where_to_ask(document: &str) -> bool {
    let list: Value = serde_json::from_str(document).unwrap_or_default();
    list["root_cas"][0]["crl_url"].is_string()
}

/// The list's entry of another operator's root: where its revocation list is, only that operator knows. Clients
/// import what is active, and fail on an active root that has expired.
fn entry(root: &TrustRoot, now: i64) -> Option<Value> {
    let certificate = Certificate::from_pem(&root.pem).ok()?;
    let mut entry = certs::roots::entry(&id(&root.fingerprint), &certificate, root.added_at);
    if root.removed_at.is_some() || now > certificate.not_after() {
        entry["status"] = json!("retired");
    }
    Some(entry)
}

/// The name of a root in the list.
pub(super) fn id(fingerprint: &str) -> String {
    format!("root-{}", &fingerprint[..16])
}

/// The 64 digits of a certificate's fingerprint.
pub(super) fn digits(certificate: &Certificate) -> &str {
    certificate.fingerprint().trim_start_matches("sha256:")
}
