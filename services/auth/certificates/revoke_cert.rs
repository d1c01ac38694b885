//! `auth.revoke_cert`: an agent logs out everywhere, or ends for good, with its key.
//!
//! A session is not enough, and neither is a key that was replaced: whoever stole one of them could end the agent. What follows is
//! what follows where the operator revokes: `ca` revokes the certificates and has the tokens revoked here, and tells every service
//! that keeps something for the agent.

use crate::{AuthService, Error};
use kernel::Caller;
use proto_schemas::requests::auth::{
    AGENT_REASONS, RevocationTarget, RevokeCert, RevokedIdentity, UNSPECIFIED,
};
use proto_schemas::requests::ca;
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn revoke_cert(
        self: Arc<Self>,
        _: Caller,
        params: RevokeCert,
    ) -> Result<RevokedIdentity, Error> {
        let RevokeCert { aid, request_id, nonce, what, reason, signature } = params;
        let (what, reason) = (what.unwrap_or_default(), reason.as_deref().unwrap_or(UNSPECIFIED));
        if !AGENT_REASONS.contains(&reason) {
            return Err(Error::Param(format!("reason must be one of {}", AGENT_REASONS.join(", "))));
        }
        let signed = RevokeCert::signed_text(&nonce, what, reason);
        let (pending, known, _) = self.complete(&aid, &request_id, &nonce, &signed, &signature).await?;
        if known.lifecycle_state == "expired" {
            return Err(Error::Expired);
        }

        self.use_up(&pending).await?;
        let serials = match what {
            RevocationTarget::Tokens => {
                self.revoke_all_tokens(aid.to_string()).await?;
                Vec::new()
            }
            RevocationTarget::Aid => {
                let reason = Some(reason.to_owned());
                self.ca(&ca::RevokeCert { serial: None, aid: Some(aid.clone()), reason }).await?.serials
            }
        };
        Ok(RevokedIdentity { status: "revoked".to_owned(), aid, what, serials })
    }
}
