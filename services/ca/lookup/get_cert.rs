//! `ca.get_cert`: the current certificate of a name, or exactly the one asked for.

use crate::store::CertificateRow;
use crate::{CaService, Error};
use kernel::{Caller, iso};
use proto_schemas::requests::ca::{GetCert, KnownCertificate};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn get_cert(
        self: Arc<Self>,
        _: Caller,
        params: GetCert,
    ) -> Result<KnownCertificate, Error> {
        let found = self.find_cert(&params).await?;
        let Some(row) = found.filter(|row| is_wanted(&params, row)) else {
            return Ok(KnownCertificate::default());
        };

        let now = self.clock.now_ms();
        Ok(KnownCertificate {
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
    async fn find_cert(&self, params: &GetCert) -> Result<Option<CertificateRow>, Error> {
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
            // Of a name that lapsed nobody is the holder.
            None => self
                .store
                .current(&aid, params.curve.as_deref(), key_purpose)
                .await?
                .filter(|row| !row.has_lapsed(self.clock.now_seconds())),
        })
    }
}

/// Without a fingerprint or serial only the active certificate counts, by default the one on P-256 that every agent has; with
/// one, any that this authority ever signed.
fn is_wanted(wanted: &GetCert, row: &CertificateRow) -> bool {
    let historic = wanted.cert_fingerprint.is_some() || wanted.serial.is_some();
    let current = |row: &CertificateRow| {
        row.state == "active_signing"
            && match &wanted.curve {
                Some(curve) => row.curve == *curve,
                None => row.curve == "P-256" || row.key_purpose == "service",
            }
    };
    let is_serial = |text: &str| certs::parse_serial(text).is_some_and(|serial| serial == row.serial);
    (historic || current(row))
        && wanted.aid.as_deref().is_none_or(|aid| row.aid.eq_ignore_ascii_case(aid))
        && wanted.cert_fingerprint.as_deref().is_none_or(|fingerprint| row.has_fingerprint(fingerprint))
        && wanted.serial.as_deref().is_none_or(is_serial)
        && (!historic || wanted.curve.as_deref().is_none_or(|curve| row.curve == curve))
        && match wanted.key_purpose.as_deref() {
            Some(purpose) => row.key_purpose == purpose,
            None => historic || row.key_purpose != "tls",
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
