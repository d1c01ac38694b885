//! `ca.get_cert`: the current certificate of a name, or exactly the one asked for.

use crate::store::CertificateRow;
use crate::{CaService, Error};
use kernel::{Caller, iso};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Default, Deserialize)]
pub(crate) struct GetCertParams {
    pub aid: Option<String>,
    pub cert_fingerprint: Option<String>,
    pub serial: Option<String>,
    pub curve: Option<String>,
    pub key_purpose: Option<String>,
    pub consistency: Option<String>,
}

#[derive(Clone, Serialize, Default)]
pub(crate) struct GotCert {
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

impl CaService {
    pub(crate) async fn get_cert(
        self: Arc<Self>,
        _: Caller,
        params: GetCertParams,
    ) -> Result<GotCert, Error> {
        let found = self.find_cert(&params).await?;
        let Some(row) = found.filter(|row| params.wants(row)) else {
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
            observed_at: Some(iso(now)),
        })
    }

    /// One row at most: what an agent has had is not read to find what it has.
    async fn find_cert(&self, params: &GetCertParams) -> Result<Option<CertificateRow>, Error> {
        if let Some(serial) = &params.serial {
            return match certs::parse_serial(serial) {
                Some(serial) => Ok(self.store.by_serial(&serial).await?),
                None => Ok(None),
            };
        }
        let Some(aid) = params.aid.as_deref().map(str::to_ascii_lowercase) else {
            return Err(Error::Bad("either aid or serial must be given".to_owned()));
        };
        let key_purpose = params.key_purpose.as_deref();
        Ok(match &params.cert_fingerprint {
            Some(wanted) => match fingerprint_digits(wanted) {
                Some(digits) => self.store.by_fingerprint(&aid, &digits, key_purpose).await?,
                None => None,
            },
            None => self.store.current(&aid, params.curve.as_deref(), key_purpose).await?,
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
            && self.aid.as_deref().is_none_or(|aid| row.aid.eq_ignore_ascii_case(aid))
            && self.cert_fingerprint.as_deref().is_none_or(|wanted| row.has_fingerprint(wanted))
            && self
                .serial
                .as_deref()
                .is_none_or(|wanted| certs::parse_serial(wanted).is_some_and(|s| s == row.serial))
            && (!historic || self.curve.as_deref().is_none_or(|wanted| row.curve == wanted))
            && match self.key_purpose.as_deref() {
                Some(purpose) => row.key_purpose == purpose,
                None => historic || row.key_purpose != "tls",
            }
    }
}

impl CertificateRow {
    fn has_fingerprint(&self, wanted: &str) -> bool {
        let Some(digits) = fingerprint_digits(wanted) else { return false };
        let of_der = self.fingerprint.trim_start_matches("sha256:");
        let of_key = self.spki_fingerprint.trim_start_matches("sha256:");
        of_der.starts_with(&digits) || of_key.starts_with(&digits)
    }
}

/// Clients of different ages name a certificate by `sha256:` and 64 hex digits of its DER, by the digits alone, by the
/// first 16 of them, or by the hash of its key. None if it is nothing of these.
fn fingerprint_digits(wanted: &str) -> Option<String> {
    let wanted = wanted.trim().to_ascii_lowercase();
    let digits = wanted.strip_prefix("sha256:").unwrap_or(&wanted);
    let is_one = matches!(digits.len(), 16 | 64) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_one.then(|| digits.to_owned())
}
