//! `ca.ocsp_query`: is this serial good, revoked or unknown? Signed for each question, because strict clients accept an
//! answer for thirty seconds only. Whoever asks in the way of RFC 6960 is answered by [`CaService::answer_ocsp`].

use crate::{CaService, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{OcspRefusal, OcspRequest, OcspStatus, Reason};
use kernel::Caller;
use proto_schemas::requests::ca::{CertificateStatus, OcspQuery};
use std::sync::Arc;

/// How long an answer may be cached.
const NEXT_UPDATE_SECONDS: i64 = 3600;

impl CaService {
    pub(crate) async fn ocsp_query(
        self: Arc<Self>,
        _: Caller,
        params: OcspQuery,
    ) -> Result<CertificateStatus, Error> {
        let serial = certs::parse_serial(&params.serial)
            .ok_or_else(|| Error::Bad("serial must be at most 40 hexadecimal digits".to_owned()))?;

        let status = self.ocsp_status(&serial).await?;
        let now = self.clock.now_seconds();
        let next = now + NEXT_UPDATE_SECONDS;
        // Python SDKs up to 0.5.4 compare a hash over our whole SubjectPublicKeyInfo, those from 0.5.10 on the hash of RFC
        // 6960, and each takes an answer with the other hash for no answer. Where it matters both are in it, and then all of
        // them believe the word beside it (docs/decisions/0020-the-login-key-is-on-p-256.md).
        let der = match status {
            OcspStatus::Revoked { .. } => {
                self.authority().ocsp_by_both_key_hashes(&serial, status, now, next)?
            }
            OcspStatus::Good | OcspStatus::Unknown => self.authority().ocsp(&serial, status, now, next)?,
        };
        Ok(CertificateStatus { status: status.as_str().to_owned(), ocsp_response: STANDARD.encode(der) })
    }

    /// The OCSPResponse to an OCSPRequest, both in DER. What cannot be answered is said inside the response, too, as
    /// clients expect it.
    pub(crate) async fn answer_ocsp(&self, request: &[u8]) -> Vec<u8> {
        let Some(request) = OcspRequest::from_der(request) else {
            return OcspRefusal::MalformedRequest.to_der();
        };
        self.try_answer_ocsp(&request).await.unwrap_or_else(|error| {
            tracing::warn!("an OCSP request could not be answered: {error}");
            OcspRefusal::TryLater.to_der()
        })
    }

    async fn try_answer_ocsp(&self, request: &OcspRequest) -> Result<Vec<u8>, Error> {
        let mut statuses = Vec::with_capacity(request.certificates.len());
        for asked in &request.certificates {
            statuses.push(match self.authority().asked_serial(asked) {
                Some(serial) => self.ocsp_status(serial).await?,
                None => OcspStatus::Unknown,
            });
        }
        let now = self.clock.now_seconds();
        Ok(self.authority().answer_ocsp(request, &statuses, now, now + NEXT_UPDATE_SECONDS)?)
    }

    async fn ocsp_status(&self, serial: &str) -> Result<OcspStatus, Error> {
        Ok(match self.store.by_serial(serial).await? {
            None => OcspStatus::Unknown,
            Some(row) => match row.revoked_at {
                None => OcspStatus::Good,
                Some(at) => OcspStatus::Revoked { at, reason: revocation_reason(row.reason.as_deref()) },
            },
        })
    }
}

pub(crate) fn revocation_reason(stored: Option<&str>) -> Reason {
    stored.and_then(|text| text.parse().ok()).unwrap_or(Reason::Unspecified)
}
