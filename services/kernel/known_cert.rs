//! What `ca.get_cert` answers, as everyone who asks it reads it.

use super::RpcError;
use certs::Certificate;
use serde::Deserialize;

/// A certificate the authority knows. If it was not found, everything else is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KnownCert {
    pub found: bool,
    pub cert: String,
    pub lifecycle_state: String,
    pub fingerprint: String,
    pub serial: String,
    pub not_before: i64,
    pub not_after: i64,
    pub deactivated_at: Option<i64>,
    pub observed_at: String,
}

impl KnownCert {
    pub fn certificate(&self) -> Result<Certificate, RpcError> {
        Certificate::from_pem(&self.cert).map_err(RpcError::internal)
    }
}
