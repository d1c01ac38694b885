//! `ca.rekey_cert`: a certificate for a new key of the same agent; the old one verifies only what it signed before.

use crate::issuing::issue_cert::public_key;
use crate::{CaService, Error};
use kernel::Caller;
use proto_schemas::requests::ca::{IssuedCertificate, RekeyCert};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn rekey_cert(
        self: Arc<Self>,
        _: Caller,
        params: RekeyCert,
    ) -> Result<IssuedCertificate, Error> {
        let old = self.active(&params.aid, &params.old_serial).await?;
        let key = public_key(&params.public_key, &old.curve)?;
        if let Some(retry_after_ms) = self.wait_for_certificate(&old).await? {
            // Only the key that a certificate is for can do anything with it.
            if key.fingerprint() == old.spki_fingerprint {
                return Ok(self.issued(&old, true, None));
            }
            let limit = self.certificates_per_day;
            return Err(Error::TooManyCertificates { aid: old.aid, limit, retry_after_ms });
        }
        self.replace(&old, &key).await
    }
}
