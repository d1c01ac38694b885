//! `message.webhook.remove_device`: an agent does not get its messages by webhook any more.

use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::webhook::{RemoveDevice, RemoveDeviceResult};
use std::sync::Arc;

impl MessageService {
    pub(crate) async fn remove_webhook_device(
        self: Arc<Self>,
        _: Caller,
        RemoveDevice { aid }: RemoveDevice,
    ) -> Result<RemoveDeviceResult, Error> {
        self.inboxes.remove_webhook(&aid).await?;
        Ok(RemoveDeviceResult { ok: true })
    }
}
