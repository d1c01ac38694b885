//! `ca.get_issuer_pins`: the keys of other domains' authorities, as they were seen first.

use crate::{CaService, Error};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct GetIssuerPinsParams {}

#[derive(Clone, Serialize)]
pub(crate) struct AllPins {
    pins: Vec<SeenPin>,
}

#[derive(Clone, Serialize)]
struct SeenPin {
    domain: String,
    spki_fingerprint: String,
    seen_at: i64,
}

impl CaService {
    pub(crate) async fn get_issuer_pins(
        self: Arc<Self>,
        _: Caller,
        _: GetIssuerPinsParams,
    ) -> Result<AllPins, Error> {
        let pins = self.store.issuer_pins().await?.into_iter().map(|pin| SeenPin {
            domain: pin.domain,
            spki_fingerprint: pin.spki_fingerprint,
            seen_at: pin.seen_at,
        });
        Ok(AllPins { pins: pins.collect() })
    }
}
