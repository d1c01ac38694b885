//! `ca.unpin_issuer`: accept another key of another domain's authority.

use crate::{CaService, Error};
use kernel::Caller;
use proto_schemas::requests::ca::{PinnedIssuer, UnpinIssuer};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn unpin_issuer(
        self: Arc<Self>,
        _: Caller,
        params: UnpinIssuer,
    ) -> Result<PinnedIssuer, Error> {
        let domain = params.domain.trim().to_ascii_lowercase();
        let Some(spki_fingerprint) = self.store.unpin_issuer(&domain).await? else {
            return Err(Error::PinNotFound(domain));
        };
        // Gateways hold a copy.
        self.tell_trust_changed();
        Ok(PinnedIssuer { domain, spki_fingerprint })
    }
}
