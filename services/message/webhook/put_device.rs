//! `message.webhook.put_device`: an agent gets its messages by webhook from now on.

use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::webhook::{PutDevice, PutDeviceResult};
use std::sync::Arc;

impl MessageService {
    pub(crate) async fn put_webhook_device(
        self: Arc<Self>,
        _: Caller,
        PutDevice { aid }: PutDevice,
    ) -> Result<PutDeviceResult, Error> {
        self.inboxes.put_webhook(&aid, self.clock.now_ms()).await?;
        Ok(PutDeviceResult { ok: true })
    }
}
