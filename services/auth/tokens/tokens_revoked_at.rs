//! `auth.tokens_revoked_at`: when were all tokens of this agent revoked? Asked by a gateway that may have missed the event.

use crate::{AuthService, Error};
use kernel::Caller;
use proto_schemas::requests::auth::{LastRevocation, TokensRevokedAt};
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn tokens_revoked_at(
        self: Arc<Self>,
        _: Caller,
        params: TokensRevokedAt,
    ) -> Result<LastRevocation, Error> {
        Ok(LastRevocation { revoked_at: self.revoked_at(&params.aid).await? })
    }
}
