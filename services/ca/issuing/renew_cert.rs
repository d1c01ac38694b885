//! `ca.renew_cert`: a new certificate for the same key; the old one verifies only.
//!
//! Every certificate is kept for good, so an agent gets so many a day. Beyond that a renewal answers with the certificate
//! that it has: clients that renew long before it ends ask for no more than a valid one.

use crate::store::{CertificateRow, NewCertificate};
use crate::{CaService, DAY, Error};
use certs::{Certificate, PublicKey};
use kernel::{Aid, Caller};
use proto_schemas::requests::ca::{CertReplaced, IssuedCertificate, RenewCert};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn renew_cert(
        self: Arc<Self>,
        _: Caller,
        params: RenewCert,
    ) -> Result<IssuedCertificate, Error> {
        let old = self.active(&params.aid, &params.old_serial).await?;
        if self.wait_for_certificate(&old).await?.is_some() {
            return Ok(self.issued(&old, true, None));
        }
        let key = Certificate::from_pem(&old.pem)?.public_key().clone();
        self.replace(&old, &key).await
    }

    /// How many milliseconds an agent has to wait for another certificate, if it got as many as it may have today. Each one
    /// replaces the one before, so no two calls pass here for the same certificate and both get one. One that has expired
    /// is always replaced.
    pub(crate) async fn wait_for_certificate(&self, old: &CertificateRow) -> Result<Option<i64>, Error> {
        let now = self.clock.now_ms();
        if now / 1000 > old.not_after {
            return Ok(None);
        }
        let issued = self.store.issued_in(&old.aid, now - DAY * 1000, self.certificates_per_day).await?;
        Ok(issued.map(|oldest| (oldest + DAY * 1000 - now).max(1)))
    }

    /// The certificate to be replaced: of this agent, and active. One that lapsed is not: services may be removing what they keep for
    /// its holder.
    pub(crate) async fn active(&self, aid: &Aid, serial: &str) -> Result<CertificateRow, Error> {
        let serial = certs::parse_serial(serial).ok_or_else(|| Error::NotFound(serial.to_owned()))?;
        let row = self.store.by_serial(&serial).await?;
        let row = row.filter(|row| row.aid == aid.as_str()).ok_or_else(|| Error::NotFound(serial.clone()))?;
        if row.state != "active_signing" || row.has_lapsed(self.clock.now_seconds()) {
            return Err(Error::Superseded(serial));
        }
        Ok(row)
    }

    pub(crate) async fn replace(
        &self,
        old: &CertificateRow,
        key: &PublicKey,
    ) -> Result<IssuedCertificate, Error> {
        let certificate = self.sign_agent(&old.aid, key)?;
        let row = CertificateRow::new(&certificate, &old.aid, &old.key_purpose);
        let new = NewCertificate { row, issued_at: self.clock.now_ms(), additional: true };

        if !self.store.replace(&old.serial, &new).await? {
            return Err(Error::Superseded(old.serial.clone()));
        }
        self.bus.signal(&CertReplaced { aid: old.aid.clone() });
        Ok(self.issued(&new.row, false, Some(old.serial.clone())))
    }
}
