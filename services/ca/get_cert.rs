//! `ca.get_cert`: the current certificate of a name, or exactly the one asked for.

use super::store::CertificateRow;
use super::{Ca, Error};
use crate::kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

#[derive(Default, Deserialize)]
pub(super) struct GetCertParams {
    pub aid: Option<String>,
    pub cert_fingerprint: Option<String>,
    pub serial: Option<String>,
    pub curve: Option<String>,
    pub key_purpose: Option<String>,
    pub consistency: Option<String>,
}

#[derive(Clone, Serialize, Default)]
pub(super) struct GotCert {
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deactivated_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<String>,
}

impl Ca {
    pub(super) async fn get_cert(
        self: Arc<Self>,
        _: Caller,
        params: GetCertParams,
    ) -> Result<GotCert, Error> {
        let candidates = match (&params.aid, &params.serial) {
            (Some(aid), _) => self.store.of_aid(&aid.to_ascii_lowercase()).await?,
            (None, Some(serial)) => match certs::parse_serial(serial) {
                Some(serial) => self.store.by_serial(&serial).await?.into_iter().collect(),
                None => Vec::new(),
            },
            (None, None) => return Err(Error::Bad("either aid or serial must be given".to_owned())),
        };
        let Some(row) = candidates.iter().find(|row| params.wants(row)) else {
            return Ok(GotCert::default());
        };

        let now = self.clock.now_ms();
        Ok(GotCert {
            found: true,
            cert: Some(row.pem.clone()),
            aid: Some(row.aid.clone()),
            lifecycle_state: Some(row.lifecycle(now / 1000).to_owned()),
            fingerprint: Some(row.fingerprint.clone()),
            serial: Some(row.serial.clone()),
            not_before: Some(row.not_before),
            not_after: Some(row.not_after),
            deactivated_at: row.deactivated_at,
            consistency: params.consistency.filter(|wanted| wanted == "authoritative"),
            observed_at: Some(rfc3339(now)),
        })
    }
}

impl GetCertParams {
    /// Without a fingerprint or serial only the active certificate counts, by default the one on P-256 that every
    /// agent has; with one, any that this authority ever signed.
    fn wants(&self, row: &CertificateRow) -> bool {
        let historic = self.cert_fingerprint.is_some() || self.serial.is_some();
        let current = |row: &CertificateRow| {
            row.state == "active_signing"
                && match &self.curve {
                    Some(curve) => row.curve == *curve,
                    None => row.curve == "P-256" || row.key_purpose == "service",
                }
        };
        (historic || current(row))
            && self.cert_fingerprint.as_deref().is_none_or(|wanted| row.has_fingerprint(wanted))
            && self
                .serial
                .as_deref()
                .is_none_or(|wanted| certs::parse_serial(wanted).is_some_and(|s| s == row.serial))
            && match self.key_purpose.as_deref() {
                Some(purpose) => row.key_purpose == purpose,
                None => historic || row.key_purpose != "tls",
            }
    }
}

impl CertificateRow {
    /// Clients of different ages name a certificate by `sha256:` and 64 hex digits of its DER, by the digits alone, by
    /// the first 16 of them, or by the hash of its key.
    fn has_fingerprint(&self, wanted: &str) -> bool {
        let wanted = wanted.trim().to_ascii_lowercase();
        let digits = wanted.strip_prefix("sha256:").unwrap_or(&wanted);
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        let of_der = self.fingerprint.trim_start_matches("sha256:");
        let of_key = self.spki_fingerprint.trim_start_matches("sha256:");
        match digits.len() {
            64 => of_der == digits || of_key == digits,
            16 => of_der.starts_with(digits) || of_key.starts_with(digits),
            _ => false,
        }
    }
}

pub(super) fn rfc3339(ms: i64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}
