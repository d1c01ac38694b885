//! `message.e2ee.get_prekey`: the keys to encrypt to, one for each device. Reading does not use them up.

use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::e2ee::{FoundPrekeys, GetPrekey};
use std::sync::Arc;

impl MessageService {
    pub(in super::super) async fn get_prekey(
        self: Arc<Self>,
        caller: Caller,
        request: GetPrekey,
    ) -> Result<FoundPrekeys, Error> {
        if let Some(peer_call) = self.peer_call(&caller, &request.aid)? {
            return self.ask_peer(&peer_call, &request, None).await;
        }

        let mut device_prekeys = self.keys.of(&request.aid).await?;
        let prekey = device_prekeys.first().cloned();
        // Beside others, a key without a device would be taken for everybody's.
        if device_prekeys.len() > 1 {
            device_prekeys.retain(|prekey| prekey.device_id.is_some());
        }
        Ok(FoundPrekeys { found: prekey.is_some(), prekey, device_prekeys })
    }
}
