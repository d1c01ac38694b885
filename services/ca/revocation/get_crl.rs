//! `ca.get_crl`: the list of revoked certificates, signed anew every hour and at every revocation.
//!
//! The last list is kept. A revocation by this process drops it at once, and so does one that another process announces;
//! whether one was missed is looked up once a second, by their number.

use crate::revocation::ocsp_query::revocation_reason;
use crate::{CaService, Error, GRACE_SECONDS};
use certs::Revoked;
use kernel::{Caller, Event};
use proto_schemas::requests::ca::{CertRevoked, CrlSigner, GetCrl, RevocationList};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Clients refuse a list past this; we sign a new one long before.
const NEXT_UPDATE_SECONDS: i64 = 24 * 3600;
const FRESH_SECONDS: i64 = 3600;
/// How long a list is believed before the certificates on it are counted again.
const CHECK_MS: i64 = 1000;

/// A list of the issuer that is kept.
#[derive(Clone)]
pub(crate) struct SignedCrl {
    list: RevocationList,
    signed_at: i64,
    rows: i64,
    checked_at_ms: i64,
}

impl CaService {
    pub(crate) async fn get_crl(self: Arc<Self>, _: Caller, params: GetCrl) -> Result<RevocationList, Error> {
        let empty =
            |crl_pem: &str| RevocationList { crl_pem: crl_pem.to_owned(), revoked_serials: Vec::new() };
        match params.of.unwrap_or(CrlSigner::Issuer) {
            CrlSigner::Issuer => self.issuer_crl().await,
            CrlSigner::Registry => Ok(empty(&self.pki.registry_crl)),
            CrlSigner::Root => Ok(empty(&self.pki.root_crl)),
        }
    }

    async fn issuer_crl(&self) -> Result<RevocationList, Error> {
        let (now, now_ms) = (self.clock.now_seconds(), self.clock.now_ms());
        let fresh = |crl: &&SignedCrl| (crl.signed_at..crl.signed_at + FRESH_SECONDS).contains(&now);
        let kept = self.crl.lock().as_ref().filter(fresh).cloned();
        let checked = |crl: &SignedCrl| (crl.checked_at_ms..crl.checked_at_ms + CHECK_MS).contains(&now_ms);
        if let Some(crl) = kept.as_ref().filter(|crl| checked(crl)) {
            return Ok(crl.list.clone());
        }

        // One that expired long ago is refused everywhere for that; without this the list would only grow.
        let expired_before = now - GRACE_SECONDS;
        if let Some(crl) = kept
            && crl.rows == self.store.count_revoked(expired_before).await?
        {
            if let Some(same) = self.crl.lock().as_mut().filter(|same| same.signed_at == crl.signed_at) {
                same.checked_at_ms = now_ms;
            }
            return Ok(crl.list);
        }
        self.sign_crl(expired_before).await
    }

    async fn sign_crl(&self, expired_before: i64) -> Result<RevocationList, Error> {
        let dropped = self.crl_drops.load(Ordering::Acquire);
        let now = self.clock.now_seconds();
        let rows = self.store.revoked(expired_before).await?;
        let revoked: Vec<Revoked> = rows
            .iter()
            .map(|row| Revoked {
                serial: row.serial.clone(),
                at: row.revoked_at.unwrap_or(now),
                reason: revocation_reason(row.reason.as_deref()),
            })
            .collect();
        // Time only grows, and so must the number of a list.
        let number = u64::try_from(self.clock.now_ms()).unwrap_or(0);
        let list = RevocationList {
            crl_pem: self.authority().crl(&revoked, number, now, now + NEXT_UPDATE_SECONDS)?,
            revoked_serials: rows.iter().flat_map(|row| both_forms(&row.serial)).collect(),
        };
        let crl = SignedCrl {
            list: list.clone(),
            signed_at: now,
            rows: i64::try_from(rows.len()).unwrap_or(i64::MAX),
            checked_at_ms: self.clock.now_ms(),
        };
        // Something may have been revoked after the rows were read: such a list is answered once and not kept.
        let mut kept = self.crl.lock();
        if self.crl_drops.load(Ordering::Acquire) == dropped {
            *kept = Some(crl);
        }
        Ok(list)
    }

    /// The next call reads what is revoked now.
    pub(crate) fn drop_crl(&self) {
        // Counted first: a list whose rows were read before is then not kept after.
        self.crl_drops.fetch_add(1, Ordering::AcqRel);
        *self.crl.lock() = None;
    }

    /// Another process of this service revoked something.
    pub(crate) fn on_event(&self, event: &Event) {
        if event.as_signal::<CertRevoked>().is_some() {
            self.drop_crl();
        }
    }
}

/// Some clients compare minimal hex, others hex of even length.
fn both_forms(serial: &str) -> Vec<String> {
    let mut forms = vec![serial.to_owned()];
    if serial.len() % 2 == 1 {
        forms.push(format!("0{serial}"));
    }
    forms
}
