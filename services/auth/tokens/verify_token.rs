//! `auth.verify_token`: whose access token is this? Asked by the gateway at every connection.

use crate::tokens::jwt::{self, Claims, JwtError};
use crate::{AuthService, Error};
use kernel::{Aid, Caller, sha256};
use proto_schemas::requests::auth::{VerifiedToken, VerifyToken};
use std::sync::Arc;

/// How many verified tokens are cached, of about 400 bytes each.
pub(crate) const CACHED: usize = 20_000;

impl AuthService {
    pub(crate) async fn verify_token(
        self: Arc<Self>,
        _: Caller,
        params: VerifyToken,
    ) -> Result<VerifiedToken, Error> {
        let claims = self.claims(&params.token).map_err(|error| Error::Token(error.to_string()))?;
        if claims.exp <= self.clock.now_seconds() {
            return Err(Error::Token("it has expired".to_owned()));
        }
        if claims.aud != "aun" || claims.iss.strip_prefix("auth.") != Some(&self.issuer) {
            return Err(Error::Token("it is for another audience or issuer".to_owned()));
        }
        let tokens_revoked_at = self.revoked_at(&claims.aid).await?;
        // A token names the last revocation before it. One of an earlier version has only its time.
        let outlived = |at: i64| claims.rev.map_or(claims.iat > at, |rev| rev == at);
        if tokens_revoked_at.is_some_and(|at| !outlived(at)) {
            return Err(Error::Token("it was revoked".to_owned()));
        }
        let aid = Aid::parse(&claims.aid)?;
        Ok(VerifiedToken {
            aid,
            jti: claims.jti,
            expires_at: claims.exp,
            device_id: None,
            slot_id: None,
            tokens_revoked_at,
            network: claims.net.map(|network| network.to_string()),
        })
    }

    /// Where several processes share the store, another one may have revoked a moment ago: then only the table knows.
    pub(crate) async fn revoked_at(&self, aid: &str) -> sqlx::Result<Option<i64>> {
        if self.store.is_shared() {
            return self.store.revoked_at(aid).await;
        }
        Ok(self.revoked.read().get(aid).copied())
    }

    /// The claims of a token, if this server signed it. Times and revocation are checked each time; only the verified
    /// signature is cached.
    fn claims(&self, token: &str) -> Result<Claims, JwtError> {
        let hash = sha256(token);
        if let Some(claims) = self.verified.lock().get(&hash) {
            return Ok(claims.clone());
        }
        let claims = jwt::verify(token, |kid| self.keys.find(kid))?;
        // Expired ones are not presented any more, so they are the first to be evicted.
        self.verified.lock().insert(hash, claims.clone());
        Ok(claims)
    }
}
