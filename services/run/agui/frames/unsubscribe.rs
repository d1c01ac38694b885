//! `agui.unsubscribe`: be told of no more frames of a conversation.

use super::subscribe::subscription_key;
use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::agui::{Unsubscribe, UnsubscribedThread};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn agui_unsubscribe(
        self: Arc<Self>,
        caller: Caller,
        params: Unsubscribe,
    ) -> Result<UnsubscribedThread, Error> {
        let thread = ag_ui::uuid(&params.thread_id).unwrap_or(params.thread_id);
        let key = subscription_key(caller.connected_agent()?, &thread);
        Ok(UnsubscribedThread { unsubscribed: self.streams.end(&key) })
    }
}
