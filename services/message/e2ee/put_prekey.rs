//! `message.e2ee.put_prekey`: leave a key that others may encrypt to while this device is away.

use super::super::keys::Prekey;
use super::super::{Error, Message};
use crate::kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Keys and signatures on P-256 are a fraction of this.
const LONGEST: usize = 1024;

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

impl Message {
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
            return Err(Error::Param("params.device_id: not the device of this connection".to_owned()));
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
            if text.is_empty() || text.len() > LONGEST {
                return Err(Error::Param(format!("params.{name}: has 1 to {LONGEST} bytes")));
            }
        }
        if self.cert_fingerprint.as_ref().is_some_and(|text| text.len() > LONGEST) {
            return Err(Error::Param(format!("params.cert_fingerprint: has at most {LONGEST} bytes")));
        }
        Ok(())
    }
}
