//! `message.e2ee.get_prekey`: the keys to encrypt to, one for each device. Reading does not use them up.

use super::keys::Prekey;
use crate::{Error, MessageService};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize, Serialize)]
pub(crate) struct GetPrekeyParams {
    aid: Aid,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GotPrekey {
    found: bool,
    /// For clients that know one device only.
    prekey: Option<Prekey>,
    #[serde(default)]
    device_prekeys: Vec<Prekey>,
}

impl MessageService {
    pub(in super::super) async fn get_prekey(
        self: Arc<Self>,
        caller: Caller,
        params: GetPrekeyParams,
    ) -> Result<GotPrekey, Error> {
        if let Some(peer_call) = self.peer_call(&caller, &params.aid)? {
            return self.ask_peer(&peer_call, "message.e2ee.get_prekey", &params, None).await;
        }

        let mut device_prekeys = self.keys.of(&params.aid).await?;
        let prekey = device_prekeys.first().cloned();
        // Beside others, a key without a device would be taken for everybody's.
        if device_prekeys.len() > 1 {
            device_prekeys.retain(|prekey| !prekey.device.is_empty());
        }
        Ok(GotPrekey { found: prekey.is_some(), prekey, device_prekeys })
    }
}
