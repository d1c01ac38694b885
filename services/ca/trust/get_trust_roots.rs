//! `ca.get_trust_roots`: the signed list of roots this domain trusts, exactly as it was published.

use crate::{CaService, Error};
use kernel::{Caller, ResultText};
use proto_schemas::requests::ca::{GetTrustRoots, TrustList};
use serde_json::value::RawValue;
use std::sync::Arc;

impl CaService {
    pub(crate) async fn get_trust_roots(
        self: Arc<Self>,
        _: Caller,
        _: GetTrustRoots,
    ) -> Result<ResultText<TrustList>, Error> {
        let (_, _, document) = self.store.trust_list().await?.ok_or(Error::NoTrustList)?;
        // Every member is inside the signed bytes, so the text is passed on and never serialized again.
        Ok(ResultText::new(RawValue::from_string(document)?))
    }
}
