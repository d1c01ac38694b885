//! `ca.get_trust_roots`: the signed list of roots this domain trusts, exactly as it was published.

use crate::{CaService, Error};
use kernel::Caller;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct GetTrustRootsParams {}

impl CaService {
    pub(crate) async fn get_trust_roots(
        self: Arc<Self>,
        _: Caller,
        _: GetTrustRootsParams,
    ) -> Result<Box<RawValue>, Error> {
        let (_, _, document) = self.store.trust_list().await?.ok_or(Error::NoTrustList)?;
        // Every member is inside the signed bytes, so the text is passed on and never serialized again.
        Ok(RawValue::from_string(document)?)
    }
}
