//! Making tokens: access tokens that prove an AID for an hour, refresh tokens that are used once.

pub mod jwt;
mod refresh_token;
mod revoke_tokens;
mod tokens_revoked_at;
mod verify_token;

pub(super) use verify_token::CACHED as VERIFIED_CACHED;

use super::store::Token;
use super::{ACCESS_SECONDS, AuthService, Error};
use jwt::Claims;
use kernel::{Aid, Network, sha256_hex};

/// A chain of refreshes ends 30 days after its login or after 720 links, whichever comes first.
pub(super) const CHAIN_MS: i64 = 30 * 86_400_000;
pub(super) const CHAIN_LINKS: i64 = 720;

impl AuthService {
    /// A token that the next revocation after `after_revocation` ends, whenever it is made.
    pub(super) async fn access_token(&self, aid: &Aid, after_revocation: i64) -> Result<String, Error> {
        let now = self.clock.now_seconds();
        let signer = self.keys.token();
        // A token never outlives the certificate whose key signed it.
        let exp = (now + ACCESS_SECONDS).min(signer.certificate().not_after());
        let claims = Claims {
            aid: aid.to_string(),
            sub: aid.to_string(),
            iss: format!("auth.{}", self.issuer),
            aud: "aun".to_owned(),
            iat: now,
            exp,
            jti: self.ids.tagged("jti"),
            rev: Some(after_revocation),
            net: self.network_of(aid.as_str()).await?,
        };
        Ok(jwt::sign(&claims, signer))
    }

    pub(super) fn first_refresh_token(
        &self,
        aid: &Aid,
        login_key: String,
        after_revocation: i64,
    ) -> (String, Token) {
        let now = self.clock.now_ms();
        let chain = self.ids.secret();
        let secret = format!("{chain}.{}", self.ids.secret());
        let token = Token {
            hash: hash(&secret),
            chain: hash(&chain),
            parent: None,
            aid: aid.to_string(),
            first_issued_at: now,
            refresh_count: 0,
            issued_at: now,
            expires_at: now + CHAIN_MS,
            login_key: Some(login_key),
            after_revocation,
        };
        (secret, token)
    }
}

/// What all tokens of a chain begin with. Who shows it had one of them: so one that was used and removed long ago is recognised.
/// Tokens of earlier versions have none.
pub(super) fn chain_of(refresh_token: &str) -> Option<&str> {
    refresh_token.split_once('.').map(|(chain, _)| chain)
}

/// Only hashes are stored: who reads the database has no token.
pub(super) fn hash(secret: &str) -> String {
    sha256_hex(secret)
}
