//! `ca.unpin_issuer`: accept another key of another domain's authority.

use crate::trust::pin_issuer::Pinned;
use crate::{CaService, Error};
use kernel::Caller;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct UnpinIssuerParams {
    domain: String,
}

impl CaService {
    pub(crate) async fn unpin_issuer(
        self: Arc<Self>,
        _: Caller,
        params: UnpinIssuerParams,
    ) -> Result<Pinned, Error> {
        let domain = params.domain.trim().to_ascii_lowercase();
        let Some(spki_fingerprint) = self.store.unpin_issuer(&domain).await? else {
            return Err(Error::PinNotFound(domain));
        };
        // Gateways hold a copy.
        self.tell_trust_changed();
        Ok(Pinned { domain, spki_fingerprint })
    }
}
