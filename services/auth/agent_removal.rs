//! What is removed when the AID of an agent ends: its tokens.
//!
//! `ca` has them revoked with a certificate, too. A name that lapsed is found here alone.

use super::AuthService;
use kernel::{Aid, RemoveAgent, RpcError};

impl RemoveAgent for AuthService {
    /// Only until they were revoked after its end: every revocation closes connections, and is told to every gateway.
    async fn remove_agent(&self, aid: &Aid, ended_at: i64) -> Result<(), RpcError> {
        let revoked_at = self.revoked_at(aid.as_str()).await?;
        if revoked_at.is_none_or(|revoked_at| revoked_at < ended_at) {
            self.revoke_all_tokens(aid.to_string()).await?;
        }
        Ok(())
    }
}
