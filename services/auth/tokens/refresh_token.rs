//! `auth.refresh_token`: the next pair of tokens for a refresh token that was not used yet.

use crate::store::{Refreshed, TokenHolder};
use crate::tokens::{CHAIN_LINKS, chain_of, hash};
use crate::{ACCESS_SECONDS, AuthService, Error};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// An agent that lost our answer asks again with the token it still has; for this long it is answered once more.
const REPLAY_MS: i64 = 10_000;

#[derive(Deserialize)]
pub(crate) struct RefreshTokenParams {
    #[serde(default)]
    refresh_token: String,
}

#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Refresh {
    Done {
        success: bool,
        aid: Aid,
        access_token: String,
        refresh_token: String,
        token: String,
        expires_in: i64,
        refresh_count: i64,
        relogin_required: bool,
        retryable: bool,
        diagnostic: Value,
    },
    Refused {
        success: bool,
        error: &'static str,
        relogin_required: bool,
        retryable: bool,
        diagnostic: Value,
    },
}

impl AuthService {
    pub(crate) async fn refresh_token(
        self: Arc<Self>,
        _: Caller,
        params: RefreshTokenParams,
    ) -> Result<Refresh, Error> {
        if params.refresh_token.is_empty() {
            return Ok(refused("missing refresh_token", json!({})));
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
            return Ok(refused("invalid_or_expired_refresh_token", diagnostic));
        }
        let now = self.clock.now_ms();
        let (replay_after, chain) = (now - REPLAY_MS, chain.map(hash));
        let refreshed =
            self.store.refresh(&old, chain.as_deref(), &hash(&next), now, replay_after, CHAIN_LINKS).await?;
        let Some(Refreshed { aid, refresh_count, after_revocation }) = refreshed else {
            return Ok(refused("invalid_or_expired_refresh_token", diagnostic));
        };
        let aid = Aid::parse(&aid)?;
        let access_token = self.access_token(&aid, after_revocation)?;
        Ok(Refresh::Done {
            success: true,
            aid,
            token: access_token.clone(),
            access_token,
            refresh_token: next,
            expires_in: ACCESS_SECONDS,
            refresh_count,
            relogin_required: false,
            retryable: false,
            diagnostic: json!({}),
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
fn refused(error: &'static str, diagnostic: Value) -> Refresh {
    Refresh::Refused { success: false, error, relogin_required: true, retryable: false, diagnostic }
}
