//! `ca.get_trust_roots`: the signed list of roots this domain trusts, exactly as it was published.

use super::get_cert::rfc3339;
use super::{Ca, Error};
use crate::kernel::Caller;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;

const LIST_SECONDS: i64 = 24 * 3600;
/// A new list is published when the old one has less than this left.
const LEAD_SECONDS: i64 = 12 * 3600;

#[derive(Deserialize)]
pub(super) struct GetTrustRootsParams {}

impl Ca {
    pub(super) async fn get_trust_roots(
        self: Arc<Self>,
        _: Caller,
        _: GetTrustRootsParams,
    ) -> Result<Box<RawValue>, Error> {
        let (_, _, document) = self.store.trust_list().await?.ok_or(sqlx::Error::RowNotFound)?;
        // Every member is inside the signed bytes, so the text is passed on and never written again.
        RawValue::from_string(document).map_err(|error| Error::Store(sqlx::Error::Decode(error.into())))
    }

    pub(super) async fn refresh_trust_list(&self) -> Result<(), Error> {
        let now = self.clock.now_seconds();
        let last = self.store.trust_list().await?;
        let version = match last {
            Some((_, next_update, _)) if next_update - LEAD_SECONDS > now => return Ok(()),
            Some((version, _, _)) => version + 1,
            None => 1,
        };
        let root = &self.pki.root;
        let list = json!({
            "version": version,
            "issued_at": rfc3339(now * 1000),
            "next_update": rfc3339((now + LIST_SECONDS) * 1000),
            "authority_cert_pem": self.pki.authority.certificate().pem(),
            "root_cas": [certs::roots::entry(&format!("root-{}", self.issuer), root, root.not_before())],
        });
        let list = certs::roots::sign(list, self.pki.authority.key());
        Ok(self.store.publish_trust_list(version, now + LIST_SECONDS, &list.to_string()).await?)
    }
}
