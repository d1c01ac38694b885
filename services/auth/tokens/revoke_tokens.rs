//! `auth.revoke_tokens`: no token of this agent is valid any more, and its connections are closed.

use crate::{AuthService, Error};
use kernel::Caller;
use proto_schemas::requests::auth::{RevokeTokens, RevokedTokens, TokensRevoked};
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn revoke_tokens(
        self: Arc<Self>,
        _: Caller,
        params: RevokeTokens,
    ) -> Result<RevokedTokens, Error> {
        self.revoke_all_tokens(params.aid).await?;
        Ok(RevokedTokens { revoked: true })
    }

    pub(crate) async fn revoke_all_tokens(&self, aid: String) -> sqlx::Result<()> {
        let revoked_at = self.store.revoke_tokens(&aid, self.clock.now_seconds()).await?;

        // Before gateways are told: whoever connects after they were is verified against it.
        self.remember_revocation(&aid, revoked_at);
        self.bus.signal(&TokensRevoked { aid, revoked_at });
        Ok(())
    }

    /// Of two revocations at once the later one counts, whichever gets here first.
    fn remember_revocation(&self, aid: &str, revoked_at: i64) {
        let mut revoked = self.revoked.write();
        let last = revoked.entry(aid.to_owned()).or_insert(revoked_at);
        *last = revoked_at.max(*last);
    }
}
