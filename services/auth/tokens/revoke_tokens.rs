//! `auth.revoke_tokens`: no token of this agent is valid any more, and its connections are closed.

use crate::{AuthService, Error};
use kernel::{Audience, Caller, Event};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct RevokeTokensParams {
    aid: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct TokensRevoked {
    revoked: bool,
}

impl AuthService {
    pub(crate) async fn revoke_tokens(
        self: Arc<Self>,
        _: Caller,
        params: RevokeTokensParams,
    ) -> Result<TokensRevoked, Error> {
        let RevokeTokensParams { aid } = params;
        let revoked_at = self.store.revoke_tokens(&aid, self.clock.now_seconds()).await?;

        // Before gateways are told: whoever connects after they were is verified against it.
        self.remember_revocation(&aid, revoked_at);
        let revoked = json!({ "aid": aid, "revoked_at": revoked_at });
        self.bus.publish(&Event::new(Audience::Gateways, "auth.tokens_revoked", &revoked));
        Ok(TokensRevoked { revoked: true })
    }

    /// Of two revocations at once the later one counts, whichever gets here first.
    fn remember_revocation(&self, aid: &str, revoked_at: i64) {
        let mut revoked = self.revoked.write();
        let last = revoked.entry(aid.to_owned()).or_insert(revoked_at);
        *last = revoked_at.max(*last);
    }
}
