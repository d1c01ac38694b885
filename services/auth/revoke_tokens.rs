//! `auth.revoke_tokens`: no token of this agent is valid any more.

use super::{Auth, Error};
use crate::kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct RevokeTokensParams {
    aid: String,
}

#[derive(Clone, Serialize)]
pub(super) struct TokensRevoked {
    revoked: bool,
}

impl Auth {
    pub(super) async fn revoke_tokens(
        self: Arc<Self>,
        _: Caller,
        params: RevokeTokensParams,
    ) -> Result<TokensRevoked, Error> {
        let now = self.clock.now_seconds();

        self.store.revoke_tokens(&params.aid, now).await?;
        self.revoked.write().insert(params.aid, now);
        Ok(TokensRevoked { revoked: true })
    }
}
