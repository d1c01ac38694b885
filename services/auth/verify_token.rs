//! `auth.verify_token`: whose access token is this? Asked by the door at every connection.

use super::{Auth, Error, jwt};
use crate::kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct VerifyTokenParams {
    token: String,
}

#[derive(Clone, Serialize)]
pub(super) struct Verified {
    aid: Aid,
    jti: String,
    expires_at: i64,
}

impl Auth {
    pub(super) async fn verify_token(self: Arc<Self>, _: Caller, params: VerifyTokenParams) -> Result<Verified, Error> {
        let claims =
            jwt::verify(&params.token, |kid| self.keys.find(kid)).map_err(|error| Error::Token(error.to_string()))?;
        if claims.exp <= self.clock.now_seconds() {
            return Err(Error::Token("it has expired".to_owned()));
        }
        if claims.aud != "aun" || claims.iss.strip_prefix("auth.") != Some(&self.issuer) {
            return Err(Error::Token("it is meant for somebody else".to_owned()));
        }
        if self.revoked.read().get(&claims.aid).is_some_and(|at| claims.iat <= *at) {
            return Err(Error::Token("it was revoked".to_owned()));
        }
        Ok(Verified { aid: Aid::parse(&claims.aid)?, jti: claims.jti, expires_at: claims.exp })
    }
}
