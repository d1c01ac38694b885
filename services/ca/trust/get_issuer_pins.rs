//! `ca.get_issuer_pins`: the keys of other domains' authorities, as they were seen first.

use crate::{CaService, Error};
use kernel::Caller;
use proto_schemas::requests::ca::{GetIssuerPins, IssuerPins, ListedPin};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn get_issuer_pins(
        self: Arc<Self>,
        _: Caller,
        _: GetIssuerPins,
    ) -> Result<IssuerPins, Error> {
        let pins = self.store.issuer_pins().await?.into_iter().map(|pin| ListedPin {
            domain: pin.domain,
            spki_fingerprint: pin.spki_fingerprint,
            seen_at: pin.seen_at,
        });
        Ok(IssuerPins { pins: pins.collect() })
    }
}
