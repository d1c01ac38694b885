//! The copies of a message to another domain that the sender's own other devices get.

use crate::store::write::{DeviceChanges, NewMessage, SendOutcome};
use crate::{Error, MessageService};
use kernel::{CallingAgent, RpcError, codes};
use proto_schemas::requests::message::Send;

/// How often they are addressed anew because the sender's devices changed meanwhile.
const TRIES: usize = 3;

impl MessageService {
    /// The copies for the sender's own devices. Made before the message is sent, so that one that is not valid is refused
    /// here.
    pub(super) async fn draft_own(
        &self,
        session: &CallingAgent,
        send: &Send,
        now: i64,
    ) -> Result<(NewMessage, DeviceChanges), Error> {
        match self.new_message(session, send, None, now).await {
            Err(error) if error.is_about_devices() => {
                // What this process has cached of the sender's devices may be old.
                self.inboxes.forget(&session.aid);
                self.new_message(session, send, None, now).await
            }
            drafted => drafted,
        }
    }

    pub(super) async fn store_own(
        &self,
        session: &CallingAgent,
        send: &Send,
        mut draft: NewMessage,
        mut changes: DeviceChanges,
    ) -> Result<(), Error> {
        for _ in 0..TRIES {
            if draft.message.entries.is_empty() {
                return Ok(());
            }
            let at = draft.message.at;
            if let Some(ttl) = self.ttl_ms(session, send) {
                self.send_volatile(session, draft, at + ttl).await?;
                return Ok(());
            }
            match self.ledger.send(draft, changes).await? {
                SendOutcome::DevicesChanged => {
                    self.inboxes.forget(&session.aid);
                    (draft, changes) = self.new_message(session, send, None, at).await?;
                }
                SendOutcome::Sent(_) | SendOutcome::Duplicate(_) | SendOutcome::TooManyToolCalls { .. } => {
                    return Ok(());
                }
            }
        }
        let sentence = format!("the devices of {} keep changing; send the message again", session.aid);
        Err(RpcError::new(codes::UNAVAILABLE, sentence).into())
    }
}
