//! Making tokens: access tokens that prove an AID for an hour, refresh tokens that are used once.

use super::jwt::{self, Claims};
use super::store::Token;
use super::{ACCESS_SECONDS, Auth, Error};
use crate::kernel::Aid;
use ring::digest;

/// A chain of refreshes ends 30 days after its login or after 720 links, whichever comes first.
pub(super) const CHAIN_MS: i64 = 30 * 86_400_000;
pub(super) const CHAIN_LINKS: i64 = 720;

impl Auth {
    pub(super) fn access_token(&self, aid: &Aid) -> Result<String, Error> {
        let now = self.clock.now_seconds();
        // Revocations are stored in seconds. A token made in the same second is newer, so its iat is a second later.
        let iat = self.revoked.read().get(aid.as_str()).map_or(now, |at| now.max(at + 1));
        let signer = self.keys.token();
        // A token never outlives the certificate whose key signed it.
        let exp = (now + ACCESS_SECONDS).min(signer.certificate().not_after());
        let claims = Claims {
            aid: aid.to_string(),
            sub: aid.to_string(),
            iss: format!("auth.{}", self.issuer),
            aud: "aun".to_owned(),
            iat,
            exp,
            jti: self.ids.tagged("jti"),
        };
        Ok(jwt::sign(&claims, signer))
    }

    pub(super) fn first_refresh_token(&self, aid: &Aid, chain: &str) -> (String, Token) {
        let now = self.clock.now_ms();
        let secret = self.ids.secret();
        let token = Token {
            hash: hash(&secret),
            chain: chain.to_owned(),
            parent: None,
            aid: aid.to_string(),
            first_issued_at: now,
            refresh_count: 0,
            issued_at: now,
            expires_at: now + CHAIN_MS,
        };
        (secret, token)
    }
}

/// Only hashes are stored: who reads the database has no token.
pub(super) fn hash(secret: &str) -> String {
    hex::encode(digest::digest(&digest::SHA256, secret.as_bytes()))
}
