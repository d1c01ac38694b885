//! `ca.pin_issuer`: keep the key of another domain's authority, the first time it is seen.

use crate::store::{IssuerPin, MOST_PINS_OF_A_ROOT};
use crate::{CaService, Error};
use kernel::Caller;
use proto_schemas::requests::ca::{PinIssuer, PinnedIssuer};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn pin_issuer(
        self: Arc<Self>,
        _: Caller,
        params: PinIssuer,
    ) -> Result<PinnedIssuer, Error> {
        let PinIssuer { domain, spki_fingerprint, root } = params;
        if !certs::is_domain(&domain) {
            return Err(Error::Bad("domain must be the name of a domain, in lower case".to_owned()));
        }
        for (name, text) in [("spki_fingerprint", &spki_fingerprint), ("root", &root)] {
            let digits = text.strip_prefix("sha256:").unwrap_or(text);
            if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(Error::Bad(format!("{name} must be a SHA-256 in hex")));
            }
        }

        let pin = IssuerPin { domain, spki_fingerprint, root, seen_at: self.clock.now_seconds() };
        let counts = self.store.pin_issuer(&pin).await?.ok_or(Error::PinsFull(MOST_PINS_OF_A_ROOT))?;
        Ok(PinnedIssuer { domain: pin.domain, spki_fingerprint: counts })
    }
}
