//! `auth.refresh_token`: the next pair of tokens for a refresh token that was not used yet.

use super::store::Refreshed;
use super::tokens::{CHAIN_LINKS, hash};
use super::{ACCESS_SECONDS, Auth, Error};
use crate::kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// An agent that lost our answer asks again with the token it still has; for this long it is answered once more.
const REPLAY_MS: i64 = 10_000;

#[derive(Deserialize)]
pub(super) struct RefreshTokenParams {
    #[serde(default)]
    refresh_token: String,
}

#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Refresh {
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

impl Auth {
    pub(super) async fn refresh_token(
        self: Arc<Self>,
        _: Caller,
        params: RefreshTokenParams,
    ) -> Result<Refresh, Error> {
        if params.refresh_token.is_empty() {
            return Ok(refused("missing refresh_token", json!({})));
        }
        let (old, next) = (hash(&params.refresh_token), self.ids.secret());
        let diagnostic = json!({ "refresh_token_hash_prefix": format!("sha256:{}", &old[..12]) });

        let now = self.clock.now_ms();
        let refreshed = self.store.refresh(&old, &hash(&next), now, now - REPLAY_MS, CHAIN_LINKS).await?;
        let Some(Refreshed { aid, refresh_count }) = refreshed else {
            return Ok(refused("invalid_or_expired_refresh_token", diagnostic));
        };
        let aid = Aid::parse(&aid)?;
        let access_token = self.access_token(&aid)?;
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
}

/// Clients read the refusal from the result: an error would make them think the server is at fault.
fn refused(error: &'static str, diagnostic: Value) -> Refresh {
    Refresh::Refused { success: false, error, relogin_required: true, retryable: false, diagnostic }
}
