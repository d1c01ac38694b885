//! `message.e2ee.put_prekey`: store a key that others may encrypt to while this device is offline.

use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::e2ee::{PutPrekey, StoredPrekey};
use std::sync::Arc;

/// Keys and signatures on P-256 are much shorter.
const MAX_BYTES: usize = 1024;

impl MessageService {
    /// The signature is not verified here: whoever uses the key must verify it anyway.
    pub(in super::super) async fn put_prekey(
        self: Arc<Self>,
        caller: Caller,
        prekey: PutPrekey,
    ) -> Result<StoredPrekey, Error> {
        let session = &*self.acting_agent(&caller).await?;
        check(&prekey)?;
        let device = prekey.device_id.as_deref().unwrap_or_default();
        if !device.is_empty() && device != session.device.as_str() {
            return Err(Error::Param("device_id must be the device of this connection".to_owned()));
        }

        self.keys.put(&session.aid, &session.device, &prekey, self.clock.now_ms()).await?;
        Ok(StoredPrekey { ok: true, prekey_id: prekey.prekey_id })
    }
}

fn check(prekey: &PutPrekey) -> Result<(), Error> {
    let needed = [
        ("prekey_id", &prekey.prekey_id),
        ("public_key", &prekey.public_key),
        ("signature", &prekey.signature),
    ];
    for (name, text) in needed {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(Error::Param(format!("{name} must have 1 to {MAX_BYTES} bytes")));
        }
    }
    if prekey.cert_fingerprint.as_ref().is_some_and(|text| text.len() > MAX_BYTES) {
        return Err(Error::Param(format!("cert_fingerprint must have at most {MAX_BYTES} bytes")));
    }
    Ok(())
}
