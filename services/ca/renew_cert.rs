//! `ca.renew_cert`: a new certificate for the same key; the old one verifies only.

use super::store::{CertificateRow, NewCertificate};
use super::{Ca, Error, Issued};
use crate::kernel::{Aid, Caller};
use certs::{Certificate, PublicKey};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct RenewCertParams {
    aid: Aid,
    old_serial: String,
}

impl Ca {
    pub(super) async fn renew_cert(
        self: Arc<Self>,
        _: Caller,
        params: RenewCertParams,
    ) -> Result<Issued, Error> {
        let old = self.active(&params.aid, &params.old_serial).await?;
        let key = Certificate::from_pem(&old.pem)?.public_key().clone();
        self.replace(&old, &key).await
    }

    /// The certificate to be replaced: of this agent, and active.
    pub(super) async fn active(&self, aid: &Aid, serial: &str) -> Result<CertificateRow, Error> {
        let serial = certs::parse_serial(serial).ok_or_else(|| Error::NotFound(serial.to_owned()))?;
        let row = self.store.by_serial(&serial).await?;
        let row = row.filter(|row| row.aid == aid.as_str()).ok_or_else(|| Error::NotFound(serial.clone()))?;
        if row.state != "active_signing" {
            return Err(Error::Superseded(serial));
        }
        Ok(row)
    }

    pub(super) async fn replace(&self, old: &CertificateRow, key: &PublicKey) -> Result<Issued, Error> {
        let certificate = self.sign_agent(&old.aid, key)?;
        let row = CertificateRow::new(&certificate, &old.aid, &old.key_purpose);
        let new = NewCertificate { row, issued_at: self.clock.now_ms(), additional: true };

        if !self.store.replace(&old.serial, &new).await? {
            return Err(Error::Superseded(old.serial.clone()));
        }
        self.tell_gateways("ca.cert_replaced", &old.aid);
        Ok(self.issued(&new.row, false, Some(old.serial.clone())))
    }
}
