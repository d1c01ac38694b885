//! `auth.renew_cert`: a new certificate for the same key.

use crate::{AuthService, Error};
use kernel::{Aid, Caller};
use proto_schemas::requests::ca;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct RenewCertParams {
    aid: Aid,
    request_id: String,
    nonce: String,
    signature: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct Renewed {
    pub status: &'static str,
    pub cert: String,
    pub ca_cert: String,
}

impl AuthService {
    pub(crate) async fn renew_cert(
        self: Arc<Self>,
        _: Caller,
        params: RenewCertParams,
    ) -> Result<Renewed, Error> {
        let RenewCertParams { aid, request_id, nonce, signature } = params;
        let (pending, known, _) = self.complete(&aid, &request_id, &nonce, &nonce, &signature).await?;

        let current = self.current(&aid, known).await?;

        self.use_up(&pending).await?;
        let request = ca::RenewCert { aid: aid.to_string(), old_serial: current.serial };
        let issued = self.ca(&request).await?;
        Ok(Renewed { status: "renewed", cert: issued.cert, ca_cert: issued.ca_cert })
    }
}
