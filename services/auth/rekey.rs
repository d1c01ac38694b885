//! `auth.rekey`: a certificate for a new key, asked for with the old one.

use super::renew_cert::Renewed;
use super::{Auth, Error};
use crate::kernel::{Aid, Caller};
use proto_schemas::requests::ca;
use serde::Deserialize;
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
        let request =
            ca::RekeyCert { aid: aid.to_string(), old_serial: current.serial, public_key: new_public_key };
        let issued = self.ca(&request).await?;
        Ok(Renewed { status: "rekeyed", cert: issued.cert, ca_cert: issued.ca_cert })
    }
}
