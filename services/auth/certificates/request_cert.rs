//! `auth.request_cert`: a further certificate of a logged-in agent, such as one on P-384.
//!
//! A session is not enough: whoever stole a token has one, too. The key of the active certificate signs, and the new key.

use crate::{AuthService, Error};
use kernel::Caller;
use proto_schemas::requests::auth::{RequestCert, RequestedCertificate};
use proto_schemas::requests::ca;
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn request_cert(
        self: Arc<Self>,
        caller: Caller,
        params: RequestCert,
    ) -> Result<RequestedCertificate, Error> {
        let RequestCert { aid, public_key, curve, request_id, nonce, signature, proof, .. } = params;
        let session = caller.local_agent()?;
        if session.aid != aid {
            return Err(Error::NotYours { wanted: aid.to_string(), session: session.aid.to_string() });
        }
        let given =
            [("request_id", &request_id), ("nonce", &nonce), ("signature", &signature), ("proof", &proof)];
        if let Some((name, _)) = given.iter().find(|(_, value)| value.is_empty()) {
            return Err(Error::Param(format!("{name} is required: start with auth.aid_login1")));
        }
        // Begins with the method, unlike what a login or a rekey signs: none of them is good for another.
        let signed = format!("auth.request_cert:{nonce}:{}:{public_key}", curve.as_str());
        let (pending, known, _) = self.complete(&aid, &request_id, &nonce, &signed, &signature).await?;
        if known.lifecycle_state == "expired" {
            return Err(Error::Expired);
        }
        crate::login::check_possession(&public_key, &signed, &proof)?;

        self.use_up(&pending).await?;
        let request =
            ca::IssueCert { aid: aid.clone(), public_key, curve, key_purpose: None, additional: Some(true) };
        let ca::IssuedCertificate { cert, ca_cert, curve, .. } = self.ca(&request).await?;
        Ok(RequestedCertificate { status: "issued".to_owned(), aid, cert, ca_cert, curve })
    }
}
