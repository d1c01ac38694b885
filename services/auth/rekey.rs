//! `auth.rekey`: a certificate for a new key, asked for with the old one.

use super::renew_cert::Renewed;
use super::{Auth, Error, IssuedCert};
use crate::kernel::{Aid, Caller};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct RekeyParams {
    aid: Aid,
    request_id: String,
    nonce: String,
    new_public_key: String,
    signature: String,
}

impl Auth {
    pub(super) async fn rekey(self: Arc<Self>, _: Caller, params: RekeyParams) -> Result<Renewed, Error> {
        let RekeyParams { aid, request_id, nonce, new_public_key, signature } = params;
        let signed = format!("{nonce}{new_public_key}");
        let (pending, known, _) = self.complete(&aid, &request_id, &nonce, &signed, &signature).await?;

        let current = self.current(&aid, known).await?;

        self.use_up(&pending).await?;
        let request = json!({ "aid": aid, "old_serial": current.serial, "public_key": new_public_key });
        let issued: IssuedCert = self.ca("ca.rekey_cert", request).await?;
        Ok(Renewed { status: "rekeyed", cert: issued.cert, ca_cert: issued.ca_cert })
    }
}
