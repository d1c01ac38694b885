//! `auth.refresh_token`: the next pair of tokens for a refresh token that was not used yet.

use crate::store::{Refreshed, TokenHolder};
use crate::tokens::{CHAIN_LINKS, chain_of, hash};
use crate::{ACCESS_SECONDS, AuthService, Error};
use kernel::{Aid, Caller};
use proto_schemas::requests::auth::{RefreshResult, RefreshToken};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::sync::Arc;

/// An agent that lost our answer asks again with the token it still has; for this long it is answered once more.
const REPLAY_MS: i64 = 10_000;

impl AuthService {
    pub(crate) async fn refresh_token(
        self: Arc<Self>,
        _: Caller,
        params: RefreshToken,
    ) -> Result<RefreshResult, Error> {
        if params.refresh_token.is_empty() {
            return Ok(refused("missing refresh_token", &json!({})));
        }
        let chain = chain_of(&params.refresh_token);
        let old = hash(&params.refresh_token);
        let next = match chain {
            Some(chain) => format!("{chain}.{}", self.ids.secret()),
            None => self.ids.secret(),
        };
        let diagnostic = json!({ "refresh_token_hash_prefix": format!("sha256:{}", &old[..12]) });

        if let Some(holder) = self.store.holder(&old).await?
            && !self.has_the_key_of(&holder).await?
        {
            return Ok(refused("invalid_or_expired_refresh_token", &diagnostic));
        }
        let now = self.clock.now_ms();
        let (replay_after, chain) = (now - REPLAY_MS, chain.map(hash));
        let refreshed =
            self.store.refresh(&old, chain.as_deref(), &hash(&next), now, replay_after, CHAIN_LINKS).await?;
        let Some(Refreshed { aid, refresh_count, after_revocation }) = refreshed else {
            return Ok(refused("invalid_or_expired_refresh_token", &diagnostic));
        };
        let aid = Aid::parse(&aid)?;
        let access_token = self.access_token(&aid, after_revocation).await?;
        Ok(RefreshResult {
            success: true,
            aid: Some(aid),
            token: Some(access_token.clone()),
            access_token: Some(access_token),
            refresh_token: Some(next),
            expires_in: Some(ACCESS_SECONDS),
            refresh_count: Some(refresh_count),
            diagnostic: to_raw_value(&json!({})).ok(),
            ..RefreshResult::default()
        })
    }

    /// Whether the agent's active certificate is for the key that its chain of tokens began with: a revocation leaves none, and a
    /// rekey leaves one of another key. Asked at every refresh, because a revocation is stored by `ca` before this service
    /// hears of it. One that is stored after the answer ends the tokens that are made now: they name the revocation before it.
    async fn has_the_key_of(&self, holder: &TokenHolder) -> Result<bool, Error> {
        let Some(active) = self.active(&Aid::parse(&holder.aid)?).await? else { return Ok(false) };
        match &holder.login_key {
            Some(key) => Ok(active.certificate()?.public_key().fingerprint() == *key),
            None => Ok(true),
        }
    }
}

/// Clients read the refusal from the result: an error would make them think the server is at fault.
fn refused(error: &str, diagnostic: &Value) -> RefreshResult {
    RefreshResult {
        error: Some(error.to_owned()),
        relogin_required: true,
        diagnostic: to_raw_value(diagnostic).ok(),
        ..RefreshResult::default()
    }
}
