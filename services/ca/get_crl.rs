//! `ca.get_crl`: the list of revoked certificates, signed anew every hour and at every revocation.

use super::{Ca, Error};
use crate::kernel::Caller;
use certs::Revoked;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Clients refuse a list past this; we sign a new one long before.
const NEXT_UPDATE_SECONDS: i64 = 24 * 3600;
const FRESH_SECONDS: i64 = 3600;

#[derive(Deserialize)]
pub(super) struct GetCrlParams {
    /// Whose list; the issuer's by default.
    #[serde(default)]
    pub of: CrlSigner,
}

#[derive(Clone, Copy, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum CrlSigner {
    #[default]
    Issuer,
    Registry,
    Root,
}

#[derive(Clone, Serialize)]
pub(super) struct SignedCrl {
    pub crl_pem: String,
    revoked_serials: Vec<String>,
    #[serde(skip)]
    signed_at: i64,
    #[serde(skip)]
    rows: usize,
}

impl Ca {
    pub(super) async fn get_crl(
        self: Arc<Self>,
        _: Caller,
        params: GetCrlParams,
    ) -> Result<SignedCrl, Error> {
        let kept = |crl_pem: &str| SignedCrl {
            crl_pem: crl_pem.to_owned(),
            revoked_serials: Vec::new(),
            signed_at: 0,
            rows: 0,
        };
        match params.of {
            CrlSigner::Issuer => self.issuer_crl().await,
            CrlSigner::Registry => Ok(kept(&self.pki.registry_crl)),
            CrlSigner::Root => Ok(kept(&self.pki.root_crl)),
        }
    }

    async fn issuer_crl(&self) -> Result<SignedCrl, Error> {
        let now = self.clock.now_seconds();
        // Another process may have revoked something since: every list has as many rows as the table.
        let rows = self.store.revoked().await?;
        let fresh = |crl: &&SignedCrl| {
            crl.rows == rows.len() && (crl.signed_at..crl.signed_at + FRESH_SECONDS).contains(&now)
        };
        if let Some(crl) = self.crl.lock().as_ref().filter(fresh) {
            return Ok(crl.clone());
        }

        let revoked: Vec<Revoked> = rows
            .iter()
            .map(|row| Revoked {
                serial: row.serial.clone(),
                at: row.revoked_at.unwrap_or(now),
                reason: row.revocation_reason(),
            })
            .collect();
        // Time only grows, and so must the number of a list.
        let number = u64::try_from(self.clock.now_ms()).unwrap_or(0);
        let crl = SignedCrl {
            crl_pem: self.authority().crl(&revoked, number, now, now + NEXT_UPDATE_SECONDS)?,
            revoked_serials: rows.iter().flat_map(|row| both_forms(&row.serial)).collect(),
            signed_at: now,
            rows: rows.len(),
        };
        *self.crl.lock() = Some(crl.clone());
        Ok(crl)
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
