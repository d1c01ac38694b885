//! Who reads: an inbox and a slot, always those of the session; over HTTP, those of the webhook of an agent that has one.

use crate::store::inboxes::Inbox;
use crate::{Error, MessageService};
use kernel::{Aid, Caller, CallingAgent, DeviceId, RpcError, SlotId, codes};

pub(crate) struct Consumer {
    pub aid: Aid,
    pub device: DeviceId,
    pub inbox: i64,
    /// The isolation key: slots that share it read as one.
    pub slot: String,
    /// As the session has it, for answers.
    pub slot_id: SlotId,
}

/// What a call may say about its own connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConsumerClaim<'a> {
    pub device_id: Option<&'a str>,
    pub slot_id: Option<&'a str>,
}

impl MessageService {
    /// "Explicit device_id and slot_id that contradict the connection MUST be rejected" (message.pull). Absent and empty
    /// mean the connection's own.
    pub(crate) async fn consumer(
        &self,
        caller: &Caller,
        claim: ConsumerClaim<'_>,
    ) -> Result<Consumer, Error> {
        let session = &*self.acting_agent(caller).await?;
        let device = claim.device_id.unwrap_or_default();
        if !device.is_empty() && device != session.device.as_str() {
            return Err(Error::Param("device_id must be the device of this connection".to_owned()));
        }
        if let Some(slot) = claim.slot_id.filter(|slot| !slot.is_empty()) {
            let given = SlotId::parse(slot).map_err(|error| Error::Param(format!("slot_id: {error}")))?;
            if given.key() != session.slot.key() {
                return Err(Error::Param("slot_id must be the slot of this connection".to_owned()));
            }
        }
        let inbox = self.own_inbox(session).await?;
        Ok(Consumer {
            aid: session.aid.clone(),
            device: session.device.clone(),
            inbox: inbox.id,
            slot: session.slot.key().to_owned(),
            slot_id: session.slot.clone(),
        })
    }

    /// The inbox of a session; the gateway had it made by `message.session_opened` before the session began.
    async fn own_inbox(&self, session: &CallingAgent) -> Result<Inbox, Error> {
        if let Some(inbox) = self.inboxes.find(&session.aid, &session.device).await? {
            return Ok(inbox);
        }
        self.inboxes.join(&session.aid, &session.device, self.clock.now_ms()).await?;
        let inbox = self.inboxes.find(&session.aid, &session.device).await?;
        inbox.ok_or_else(|| RpcError::plain(codes::UNAVAILABLE).into())
    }
}
