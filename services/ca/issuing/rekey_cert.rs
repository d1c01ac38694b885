//! `ca.rekey_cert`: a certificate for a new key of the same agent; the old one verifies only what it signed before.

use crate::issuing::issue_cert::public_key;
use crate::{CaService, Error, Issued};
use kernel::{Aid, Caller};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct RekeyCertParams {
    aid: Aid,
    old_serial: String,
    public_key: String,
}

impl CaService {
    pub(crate) async fn rekey_cert(
        self: Arc<Self>,
        _: Caller,
        params: RekeyCertParams,
    ) -> Result<Issued, Error> {
        let old = self.active(&params.aid, &params.old_serial).await?;
        let curve = old.curve.parse().map_err(|_| Error::Bad(format!("unknown curve {}", old.curve)))?;
        let key = public_key(&params.public_key, curve)?;
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
