//! `auth.renew_cert`: a new certificate for the same key.

use crate::{AuthService, Error};
use kernel::Caller;
use proto_schemas::requests::auth::{RenewCert, RenewedCertificate};
use proto_schemas::requests::ca;
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn renew_cert(
        self: Arc<Self>,
        _: Caller,
        params: RenewCert,
    ) -> Result<RenewedCertificate, Error> {
        let RenewCert { aid, request_id, nonce, signature, .. } = params;
        let (pending, known, _) = self.complete(&aid, &request_id, &nonce, &nonce, &signature).await?;

        let current = self.current(&aid, known).await?;

        self.use_up(&pending).await?;
        let issued = self.ca(&ca::RenewCert { aid, old_serial: current.serial }).await?;
        let status = "renewed".to_owned();
        Ok(RenewedCertificate { status, cert: issued.cert, ca_cert: Some(issued.ca_cert) })
    }
}
