//! `message.v2.put_peer_pk`: the signed key that others encrypt to, for the device of this connection.

use super::super::consumer::{Claim, Consumer};
use super::super::inboxes::Spk;
use super::super::tail::Span;
use super::super::{Error, Message, events};
use crate::kernel::{Aid, Answer, Caller, CallerEvent, DeviceId, Generation, Session};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Keys and signatures on P-256 are a fraction of this.
const LONGEST: usize = 1024;
/// An older key never replaces a newer one, so one from far ahead would stay for ever.
const SKEW_SECONDS: i64 = 86_400;

#[derive(Deserialize)]
pub(crate) struct PutPeerPkParams {
    peer_aid: Aid,
    spk_id: String,
    spk_pk: String,
    spk_signature: String,
    spk_timestamp: i64,
}

#[derive(Clone, Serialize)]
pub(crate) struct PeerPkStored {
    ok: bool,
    device_id: DeviceId,
    spk_id: String,
}

impl Message {
    /// The signature is not verified here: whoever uses the key must verify it anyway.
    pub(in super::super) async fn put_peer_pk(
        self: Arc<Self>,
        caller: Caller,
        params: PutPeerPkParams,
    ) -> Result<Answer<PeerPkStored>, Error> {
        let session = caller.session()?;
        if params.peer_aid != session.aid {
            return Err(Error::NotYours(format!("peer_aid {}", params.peer_aid)));
        }
        let spk = params.spk(self.clock.now_seconds())?;
        let consumer = self.consumer(&caller, &Claim::default()).await?;

        self.inboxes.put_spk(&consumer.aid, &consumer.device, &spk).await?;
        let event = self.waiting_bell(session, &consumer).await?;
        let result = PeerPkStored { ok: true, device_id: consumer.device, spk_id: spk.id };
        Ok(Answer { result, event: event.map(Box::new) })
    }

    /// Some clients of the second generation never ask what they missed: a bell for the newest message makes them look.
    /// Whoever has read everything gets none.
    pub(in super::super) async fn waiting_bell(
        &self,
        session: &Session,
        consumer: &Consumer,
    ) -> Result<Option<CallerEvent>, Error> {
        if session.generation != Generation::Second {
            return Ok(None);
        }
        let ack = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
        let span = Span { inbox: consumer.inbox, after: ack, before: i64::MAX, sender: None };
        let newest = self.store.last(span, 1).await?;
        let Some(entry) = newest.first() else { return Ok(None) };
        let Some(place) = entry.message.place(consumer.inbox) else { return Ok(None) };
        let params = events::doorbell(&entry.message, place, &consumer.device, None);
        Ok(params.map(|params| CallerEvent { method: events::V2_RECEIVED.into(), params }))
    }
}

impl PutPeerPkParams {
    fn spk(self, now: i64) -> Result<Spk, Error> {
        let param = |name: &str, sentence: &str| Error::Param(format!("params.{name}: {sentence}"));
        if self.spk_pk.len() > LONGEST || self.spk_signature.len() > LONGEST {
            return Err(param("spk_pk", "a key or signature on P-256 is shorter"));
        }
        let key = STANDARD.decode(&self.spk_pk).map_err(|_| param("spk_pk", "not base64"))?;
        if self.spk_id != key_id(&key) {
            return Err(param(
                "spk_id",
                "sha256: and the first 16 hex digits of the hash of spk_pk, and it is not",
            ));
        }
        if self.spk_signature.is_empty() {
            return Err(param("spk_signature", "empty"));
        }
        if !(0..=now + SKEW_SECONDS).contains(&self.spk_timestamp) {
            return Err(param("spk_timestamp", "in unix seconds, and not more than a day ahead"));
        }
        let PutPeerPkParams {
            spk_id: id,
            spk_pk: key,
            spk_signature: signature,
            spk_timestamp: timestamp,
            ..
        } = self;
        Ok(Spk { id, key, signature, timestamp })
    }
}

/// The name of a key: the beginning of its hash.
pub(crate) fn key_id(spki: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, spki);
    format!("sha256:{}", hex::encode(&hash.as_ref()[..8]))
}
