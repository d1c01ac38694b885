//! `auth.rekey`: a certificate for a new key, asked for with the old one.

use crate::login::check_possession;
use crate::{AuthService, Error};
use certs::Certificate;
use kernel::{Aid, Caller};
use proto_schemas::requests::auth::{Rekey, RekeyedCertificate};
use proto_schemas::requests::ca;
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn rekey(
        self: Arc<Self>,
        _: Caller,
        params: Rekey,
    ) -> Result<RekeyedCertificate, Error> {
        let Rekey { aid, request_id, nonce, new_public_key, signature, proof, .. } = params;
        let signed = format!("{nonce}{new_public_key}");
        let (pending, known, _) = self.complete(&aid, &request_id, &nonce, &signed, &signature).await?;

        if let Some(proof) = proof {
            check_possession(&new_public_key, &signed, &proof)?;
        }
        let current = self.current(&aid, known).await?;

        self.use_up(&pending).await?;
        let request =
            ca::RekeyCert { aid: aid.clone(), old_serial: current.serial, public_key: new_public_key };
        let issued = self.ca(&request).await?;
        self.end_chains_of_other_keys(&aid, &issued.cert).await;
        let status = "rekeyed".to_owned();
        Ok(RekeyedCertificate { status, cert: issued.cert, ca_cert: Some(issued.ca_cert) })
    }

    /// Who had the old key has no chain of refreshes left; access tokens are valid until the end of their hour, because clients go
    /// on with the one they have. The new certificate is stored: that this fails is no reason not to answer with it, and a refresh
    /// compares the keys all the same.
    async fn end_chains_of_other_keys(&self, aid: &Aid, cert: &str) {
        let Ok(certificate) = Certificate::from_pem(cert) else { return };
        let key = certificate.public_key().fingerprint();
        if let Err(error) = self.store.end_chains_of_other_keys(aid.as_str(), &key).await {
            tracing::warn!("refresh tokens of the old key of {aid} could not be removed: {error}");
        }
    }
}
