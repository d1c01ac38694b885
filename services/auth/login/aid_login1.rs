//! `auth.aid_login1`: authenticate the server to the agent, and give it a nonce to sign.

use crate::login::{NONCE_MS, Pending};
use crate::{AuthService, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{CertError, Certificate};
use kernel::{Aid, Caller, RpcError};
use proto_schemas::requests::auth::{AidLogin1, LoginNonce};
use proto_schemas::requests::ca;
use std::sync::Arc;

/// An expired certificate may still ask for its successor for this long.
const GRACE_SECONDS: i64 = 90 * 86_400;

impl AuthService {
    pub(crate) async fn aid_login1(
        self: Arc<Self>,
        _: Caller,
        params: AidLogin1,
    ) -> Result<LoginNonce, Error> {
        if params.client_nonce.is_empty() || params.client_nonce.len() > 256 {
            return Err(Error::Param("client_nonce must be 1 to 256 characters long".to_owned()));
        }
        let fingerprint = Certificate::fingerprint_of_pem(&params.cert).map_err(unusable)?;
        self.check_certificate(&params.aid, &fingerprint, &params.cert).await?;

        let now = self.clock.now_ms();
        let pending = Pending { request_id: self.ids.tagged("req"), expires_at: now + NONCE_MS, fingerprint };
        let identity = self.keys.login();
        Ok(LoginNonce {
            nonce: self.keys.seal.close(&params.aid, &pending, self.ids.bytes()),
            request_id: pending.request_id,
            server_time: now as f64 / 1000.0,
            // The text itself is signed, not what it might decode to.
            client_nonce_signature: STANDARD.encode(identity.sign(params.client_nonce.as_bytes())),
            auth_cert: identity.certificate().pem().to_owned(),
            auth_curve: identity.key().curve().to_string(),
        })
    }

    /// A certificate this authority signed and knows needs no chain check, and is not even parsed: its bytes are the ones that
    /// were stored.
    async fn check_certificate(&self, aid: &Aid, fingerprint: &str, cert: &str) -> Result<(), Error> {
        let known = match self.known(aid, fingerprint).await {
            Err(Error::NotRegistered(_)) => return Err(self.why_unknown(aid, cert).await?),
            known => known?,
        };
        let now = self.clock.now_seconds();
        if now < known.not_before {
            return Err(Error::Certificate("it is not valid yet".to_owned()));
        }
        if now > known.not_after + GRACE_SECONDS {
            return Err(Error::Certificate(
                "it expired more than 90 days ago: register the agent again".to_owned(),
            ));
        }
        Ok(())
    }

    /// What is wrong with a certificate that is not known. What can be read comes first; a signature is verified only where
    /// everything else is as in a certificate of ours.
    async fn why_unknown(&self, aid: &Aid, cert: &str) -> Result<Error, RpcError> {
        let certificate = match Certificate::from_pem(cert) {
            Ok(certificate) => certificate,
            Err(error) => return Ok(unusable(error)),
        };
        if certificate.common_name() != aid.as_str() {
            return Ok(Error::Certificate(format!("its name must be {aid}")));
        }
        let verified = self.ca(&ca::VerifyChain { cert: certificate.pem().to_owned() }).await?;
        Ok(match verified.reason {
            Some(reason) if !reason.ends_with("not one this authority signed") => Error::Certificate(reason),
            _ => Error::NotRegistered(aid.to_string()),
        })
    }
}

fn unusable(error: CertError) -> Error {
    Error::Certificate(error.to_string())
}
