//! What `ca.get_cert` answers, as everyone who asks it reads it.

use crate::{Caller, Mesh, RpcError};
use certs::Certificate;
use proto_schemas::requests::ca::{GetCert, KnownCertificate};

/// A certificate the authority knows.
#[derive(Clone, Debug)]
pub struct KnownCert {
    pub cert: String,
    pub lifecycle_state: String,
    pub fingerprint: String,
    pub serial: String,
    pub not_before: i64,
    pub not_after: i64,
    pub deactivated_at: Option<i64>,
}

impl Mesh {
    /// Asks `ca` for a certificate, in the name of a service. None if there is no such certificate.
    pub async fn known_cert(&self, service: &str, wanted: &GetCert) -> Result<Option<KnownCert>, RpcError> {
        let answer = self.ask(Caller::service(service), wanted).await?;
        if !answer.found {
            return Ok(None);
        }
        let known = KnownCert::of(answer);
        known.map(Some).ok_or_else(|| RpcError::internal(anyhow::anyhow!("ca.get_cert left something out")))
    }
}

impl KnownCert {
    fn of(answer: KnownCertificate) -> Option<KnownCert> {
        Some(KnownCert {
            cert: answer.cert?,
            lifecycle_state: answer.lifecycle_state?,
            fingerprint: answer.fingerprint?,
            serial: answer.serial?,
            not_before: answer.not_before?,
            not_after: answer.not_after?,
            deactivated_at: answer.deactivated_at,
        })
    }

    pub fn certificate(&self) -> Result<Certificate, RpcError> {
        Certificate::from_pem(&self.cert).map_err(RpcError::internal)
    }
}
