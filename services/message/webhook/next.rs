//! `message.webhook.next`: the message that a webhook is sent next.

use crate::envelope::may_be_sealed;
use crate::reading::consumer::Consumer;
use crate::reading::page::MAX_ROW_BYTES;
use crate::reading::scan::HasContent;
use crate::store::lookup::InboxMessage;
use crate::store::stored_message::{MessageKind, StoredMessage};
use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::webhook::{Next, NextMessage, NextResult};
use proto_schemas::tool_call::MessageMarks;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::sync::Arc;

const NEW_MESSAGE: &str = "message.new";
const TOOL_RESPONSE: &str = "artifact_response";
/// How many messages are looked at together, where the first one cannot be sent.
const BATCH: usize = 100;
/// The content of a queue message may come a moment after its seq. What has none after this time never gets any.
const CONTENT_WITHIN_MS: i64 = 60_000;

impl MessageService {
    pub(crate) async fn next_for_webhook(
        self: Arc<Self>,
        _: Caller,
        Next { aid }: Next,
    ) -> Result<NextResult, Error> {
        let Some(consumer) = self.webhook_consumer(&aid).await? else { return Ok(NextResult::default()) };
        let cursor = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
        let (next, passed) = self.first_to_send(&consumer, cursor).await?;
        if next.is_none() && passed > cursor {
            self.step_over(consumer.inbox, passed).await?;
        }
        Ok(NextResult { device: true, next })
    }

    /// The first message after a seq that can be sent; and up to where there is nothing before it that ever will be.
    async fn first_to_send(
        &self,
        consumer: &Consumer,
        after: i64,
    ) -> Result<(Option<NextMessage>, i64), Error> {
        let (mut after, mut most, mut passed) = (after, 1, after);
        let mut is_gone = true;
        loop {
            let found = self.with_content_after(consumer, after, most).await?;
            let is_last = found.len() < most;
            for (one, has_content) in found {
                let next = match has_content {
                    HasContent::Yes => next_message(&one, consumer),
                    HasContent::No => {
                        is_gone &= one.message.at < self.clock.now_ms() - CONTENT_WITHIN_MS;
                        None
                    }
                };
                if next.is_some() {
                    return Ok((next, passed));
                }
                after = one.seq;
                if is_gone {
                    passed = after;
                }
            }
            if is_last {
                return Ok((None, passed));
            }
            most = BATCH;
        }
    }
}

/// The message as a connected device would pull it, if one could.
fn next_message(found: &InboxMessage, consumer: &Consumer) -> Option<NextMessage> {
    let message = &found.message;
    let entry = message.entry(consumer.inbox)?;
    let row = match message.kind {
        MessageKind::V2 => message.v2_row(entry, &consumer.device, None)?,
        _ => message.plain_row(entry, &consumer.device, None)?,
    };
    if row.get().len() > MAX_ROW_BYTES {
        return None;
    }
    let (is_encrypted, is_response) = marks(message);
    Some(NextMessage {
        seq: found.seq,
        message_id: message.message_id.clone(),
        sent_at: message.at,
        kind: if is_response { TOOL_RESPONSE } else { NEW_MESSAGE }.to_owned(),
        message: with_encrypted(row, is_encrypted)?,
    })
}

/// Whether it is encrypted, and whether it is called the answer to a tool call.
fn marks(message: &StoredMessage) -> (bool, bool) {
    let attributes = &message.attributes;
    let is_envelope = matches!(message.kind, MessageKind::V1 | MessageKind::V2);
    let is_encrypted = is_envelope || attributes.encrypted || may_be_sealed(&message.body);
    let marks = MessageMarks {
        msg_subtype: attributes.msg_subtype.as_deref(),
        headers: attributes.headers.as_deref(),
        protected_headers: attributes.protected_headers.as_deref(),
        payload: Some(&message.body),
        encrypted: is_encrypted,
    };
    (is_encrypted, marks.is_tool_response())
}

/// A row always says whether it is encrypted, because nothing else beside it does. All else stays as it is, byte for byte.
fn with_encrypted(row: Box<RawValue>, is_encrypted: bool) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct RowMark {
        encrypted: Option<IgnoredAny>,
    }
    let mark: RowMark = serde_json::from_str(row.get()).ok()?;
    if mark.encrypted.is_some() {
        return Some(row);
    }
    let rest = row.get().strip_prefix('{')?;
    RawValue::from_string(format!("{{\"encrypted\":{is_encrypted},{rest}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whether_it_is_encrypted_and_is_otherwise_as_it_was() {
        let marked = |text: &str, is_encrypted: bool| {
            let row = RawValue::from_string(text.to_owned()).unwrap();
            with_encrypted(row, is_encrypted).unwrap().get().to_owned()
        };
        assert_eq!(marked(r#"{"b": 1.50,"a":"\/"}"#, false), r#"{"encrypted":false,"b": 1.50,"a":"\/"}"#);
        assert_eq!(marked(r#"{"a":{"encrypted":1}}"#, true), r#"{"encrypted":true,"a":{"encrypted":1}}"#);
        assert_eq!(marked(r#"{"encrypted":true}"#, true), r#"{"encrypted":true}"#);
    }
}
