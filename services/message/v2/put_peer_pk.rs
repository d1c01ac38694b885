//! `message.v2.put_peer_pk`: the signed prekey that others encrypt to, for the device of this connection.

use crate::reading::consumer::{Consumer, ConsumerClaim};
use crate::reading::reminders::{RemindedConnection, Reminder};
use crate::store::inboxes::Spk;
use crate::{Error, MessageService};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::{Answer, Caller, CallerEvent, CallingAgent, Generation, sha256};
use proto_schemas::requests::message::v2::{PutPeerPk, StoredPeerKey};
use std::sync::Arc;

/// Keys and signatures on P-256 are much shorter.
const MAX_LENGTH: usize = 1024;
/// An older key never replaces a newer one, so one dated far ahead would never be replaced.
const SKEW_SECONDS: i64 = 86_400;

impl MessageService {
    /// The signature is not verified here: whoever uses the key must verify it anyway.
    pub(in super::super) async fn put_peer_pk(
        self: Arc<Self>,
        caller: Caller,
        put: PutPeerPk,
    ) -> Result<Answer<StoredPeerKey>, Error> {
        let session = &*self.acting_agent(&caller).await?;
        if put.peer_aid != session.aid {
            return Err(Error::NotYours(format!("peer_aid {}", put.peer_aid)));
        }
        let spk = checked(put, self.clock.now_seconds())?;
        let consumer = self.consumer(&caller, ConsumerClaim::default()).await?;

        self.inboxes.put_spk(&consumer.aid, &consumer.device, &spk).await?;
        let event = self.unread_event(session, &consumer).await?;
        let result = StoredPeerKey { ok: true, device_id: consumer.device, spk_id: spk.id };
        Ok(Answer { result, event })
    }

    /// Some clients of the second generation never pull by themselves: a reminder makes them pull. Who has read everything gets
    /// none.
    async fn unread_event(
        self: &Arc<Self>,
        session: &CallingAgent,
        consumer: &Consumer,
    ) -> Result<Option<Box<CallerEvent>>, Error> {
        if session.generation != Generation::Second {
            return Ok(None);
        }
        let reminded = RemindedConnection::of(session, consumer);
        let Some(Reminder { seq, event }) = self.unread_reminder(&reminded).await? else { return Ok(None) };
        self.look_again(reminded, seq);
        Ok(Some(Box::new(event)))
    }
}

fn checked(put: PutPeerPk, now: i64) -> Result<Spk, Error> {
    let param = |name: &str, sentence: &str| Error::Param(format!("{name}: {sentence}"));
    if put.spk_pk.len() > MAX_LENGTH || put.spk_signature.len() > MAX_LENGTH {
        return Err(param("spk_pk", "must be a key on P-256, and is too long"));
    }
    let key = STANDARD.decode(&put.spk_pk).map_err(|_| param("spk_pk", "must be base64"))?;
    if put.spk_id != key_id(&key) {
        return Err(param("spk_id", "must be sha256: and the first 16 hex digits of the hash of spk_pk"));
    }
    if put.spk_signature.is_empty() {
        return Err(param("spk_signature", "must not be empty"));
    }
    if !(0..=now + SKEW_SECONDS).contains(&put.spk_timestamp) {
        return Err(param("spk_timestamp", "must be in unix seconds, and at most a day ahead"));
    }
    Ok(Spk { id: put.spk_id, key: put.spk_pk, signature: put.spk_signature, timestamp: put.spk_timestamp })
}

/// The name of a key: the beginning of its hash.
pub(crate) fn key_id(spki: &[u8]) -> String {
    format!("sha256:{}", hex::encode(&sha256(spki)[..8]))
}
