//! `run.token_revoke`: revoke the tokens that begin with a prefix.

use super::{SHOWN, hash_of, is_token};
use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::{RevokedRunTokens, TokenRevoke};
use std::sync::Arc;

/// With fewer characters a slip of the pen revokes the tokens of others: `art_` alone is every tenant.
const SHORTEST: usize = 8;

impl RunService {
    pub(crate) async fn token_revoke(
        self: Arc<Self>,
        _: Caller,
        TokenRevoke { prefix }: TokenRevoke,
    ) -> Result<RevokedRunTokens, Error> {
        let now = self.clock.now_ms();
        let revoked = match prefix.len() {
            SHORTEST..=SHOWN => self.store.revoke_tokens(&prefix, now).await?,
            // Nothing between the two is stored, so which token is meant could not be told.
            _ if is_token(&prefix) => self.store.revoke_token(&hash_of(&prefix), now).await?,
            _ => {
                let sentence =
                    format!("prefix must have {SHORTEST} to {SHOWN} characters, or be a whole token");
                return Err(Error::Invalid(sentence));
            }
        };
        Ok(RevokedRunTokens { revoked })
    }
}
