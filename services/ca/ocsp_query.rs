//! `ca.ocsp_query`: is this serial good, revoked or unknown? Signed for each question, because strict clients accept an
//! answer for thirty seconds only.

use super::{Ca, Error};
use crate::kernel::Caller;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{OcspStatus, Reason};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How long an answer may be cached.
const NEXT_UPDATE_SECONDS: i64 = 3600;

#[derive(Deserialize)]
pub(super) struct OcspQueryParams {
    serial: String,
}

#[derive(Clone, Serialize)]
pub(super) struct OcspAnswer {
    status: &'static str,
    ocsp_response: String,
}

impl Ca {
    pub(super) async fn ocsp_query(
        self: Arc<Self>,
        _: Caller,
        params: OcspQueryParams,
    ) -> Result<OcspAnswer, Error> {
        let serial = certs::parse_serial(&params.serial)
            .ok_or_else(|| Error::Bad("serial must be at most 40 hexadecimal digits".to_owned()))?;

        let (status, word) = match self.store.by_serial(&serial).await? {
            None => (OcspStatus::Unknown, "unknown"),
            Some(row) => match row.revoked_at {
                None => (OcspStatus::Good, "good"),
                Some(at) => (OcspStatus::Revoked { at, reason: row.revocation_reason() }, "revoked"),
            },
        };
        let now = self.clock.now_seconds();
        let der = self.authority().ocsp(&serial, status, now, now + NEXT_UPDATE_SECONDS)?;
        Ok(OcspAnswer { status: word, ocsp_response: STANDARD.encode(der) })
    }
}

impl super::CertificateRow {
    pub(super) fn revocation_reason(&self) -> Reason {
        self.reason.as_deref().and_then(|text| text.parse().ok()).unwrap_or(Reason::Unspecified)
    }
}
