//! `auth.aid_login2`: the agent signed the nonce; give it its tokens.

use crate::store::Login;
use crate::{ACCESS_SECONDS, AuthService, Error, KnownCert, LoginOutcome};
use kernel::{Aid, Caller};
use proto_schemas::requests::auth::{AidLogin2, LoginTokens};
use proto_schemas::requests::ca;
use serde_json::value::RawValue;
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn aid_login2(
        self: Arc<Self>,
        _: Caller,
        params: AidLogin2,
    ) -> Result<LoginTokens, Error> {
        let signed = format!("{}:{}", params.nonce, verbatim(&params.client_time)?);
        let AidLogin2 { aid, request_id, nonce, signature, .. } = params;
        // Read before `ca` is asked for the certificate's state. A revocation that is stored after that answer is a later one than
        // this, and tokens that name an earlier revocation than the last one are not valid: so none of this login survives it.
        let after_revocation = self.revoked_at(aid.as_str()).await?.unwrap_or(0);
        let (pending, known, certificate) =
            self.complete(&aid, &request_id, &nonce, &signed, &signature).await?;
        if known.lifecycle_state == "expired" {
            return Err(Error::Expired);
        }

        let access_token = self.access_token(&aid, after_revocation).await?;
        let login_key = certificate.public_key().fingerprint();
        let (refresh_token, row) = self.first_refresh_token(&aid, login_key, after_revocation);

        // The used nonce and the new token are one row each of one commit: a replayed login stores neither.
        let login = Login { request_id, login_expires_at: pending.expires_at, token: row };
        match self.logins.submit(login, 512).await? {
            LoginOutcome::Stored => {}
            LoginOutcome::UsedBefore => return Err(Error::Nonce("it was used already")),
            LoginOutcome::Overtaken => {
                return Err(Error::Nonce(
                    "the agent's tokens have been revoked: start again with auth.aid_login1",
                ));
            }
        }
        let new_cert = self.successor(&aid, &known).await?;
        Ok(LoginTokens {
            status: "ok".to_owned(),
            aid,
            token: Some(access_token.clone()),
            access_token,
            refresh_token,
            expires_in: ACCESS_SECONDS,
            active_cert: new_cert.clone(),
            new_cert,
        })
    }

    /// The certificate the agent should hold, if it is not the one it came with: it missed a renewal, or less than half
    /// of the lifetime is left and this is the only renewal that reaches people by itself.
    async fn successor(&self, aid: &Aid, known: &KnownCert) -> Result<Option<String>, Error> {
        if known.lifecycle_state != "active_signing" {
            return Ok(self.active(aid).await?.map(|active| active.cert));
        }
        let half = known.not_before + (known.not_after - known.not_before) / 2;
        if self.clock.now_seconds() < half {
            return Ok(None);
        }
        let renewal = ca::RenewCert { aid: aid.clone(), old_serial: known.serial.clone() };
        match self.ca(&renewal).await {
            Ok(issued) => Ok(Some(issued.cert)),
            // Two logins at once renew once; the other simply keeps what it has until the next time.
            Err(error) => {
                tracing::debug!("the certificate of {aid} was not renewed at login: {error}");
                Ok(None)
            }
        }
    }
}

/// Clients sign the time exactly as they wrote it: a string's content, or a number's own digits.
fn verbatim(client_time: &RawValue) -> Result<String, Error> {
    let text = client_time.get();
    match text.bytes().next() {
        Some(b'"') => Ok(serde_json::from_str(text).unwrap_or_default()),
        Some(b'0'..=b'9' | b'-') => Ok(text.to_owned()),
        _ => Err(Error::Param("client_time must be a string or a number".to_owned())),
    }
}
