//! `message.e2ee.put_prekey`: store a key that others may encrypt to while this device is offline.

use super::keys::Prekey;
use crate::{Error, MessageService};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Keys and signatures on P-256 are much shorter.
const MAX_BYTES: usize = 1024;

#[derive(Deserialize)]
pub(crate) struct PutPrekeyParams {
    prekey_id: String,
    public_key: String,
    signature: String,
    #[serde(default)]
    created_at: Option<i64>,
    #[serde(default)]
    cert_fingerprint: Option<String>,
    #[serde(default)]
    device_id: Option<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct PrekeyStored {
    ok: bool,
    prekey_id: String,
}

impl MessageService {
    /// The signature is not verified here: whoever uses the key must verify it anyway.
    pub(in super::super) async fn put_prekey(
        self: Arc<Self>,
        caller: Caller,
        params: PutPrekeyParams,
    ) -> Result<PrekeyStored, Error> {
        let session = caller.session()?;
        params.check()?;
        let device = params.device_id.unwrap_or_default();
        if !device.is_empty() && device != session.device.as_str() {
            return Err(Error::Param("params.device_id: must be the device of this connection".to_owned()));
        }

        let prekey = Prekey {
            prekey_id: params.prekey_id,
            public_key: params.public_key,
            signature: params.signature,
            created_at: params.created_at,
            device: session.device.as_str().to_owned(),
            cert_fingerprint: params.cert_fingerprint,
        };
        self.keys.put(&session.aid, &prekey, self.clock.now_ms()).await?;
        Ok(PrekeyStored { ok: true, prekey_id: prekey.prekey_id })
    }
}

impl PutPrekeyParams {
    fn check(&self) -> Result<(), Error> {
        let needed = [
            ("prekey_id", &self.prekey_id),
            ("public_key", &self.public_key),
            ("signature", &self.signature),
        ];
        for (name, text) in needed {
            if text.is_empty() || text.len() > MAX_BYTES {
                return Err(Error::Param(format!("params.{name}: must have 1 to {MAX_BYTES} bytes")));
            }
        }
        if self.cert_fingerprint.as_ref().is_some_and(|text| text.len() > MAX_BYTES) {
            return Err(Error::Param(format!(
                "params.cert_fingerprint: must have at most {MAX_BYTES} bytes"
            )));
        }
        Ok(())
    }
}
