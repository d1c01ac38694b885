//! What a recall comes to: which messages it removes the content of, and the notices that tell the devices.

use super::bind::json;
use super::stored_message::{self, InboxEntry, MessageAttributes, MessageKey, MessageKind, StoredMessage};
use super::write::{NewMessage, Recall, RecallOutcome};
use kernel::Aid;
use sqlx::{Any, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Recall {
    /// What becomes of one of the messages.
    pub fn decide(&self, message: Option<&StoredMessage>) -> RecallOutcome {
        match message {
            None => RecallOutcome::NotFound,
            Some(message) if message.recalled_at.is_some() => RecallOutcome::AlreadyRecalled,
            Some(message) if matches!(message.kind, MessageKind::Queue | MessageKind::Recall) => {
                RecallOutcome::NotFound
            }
            Some(message) if message.at < self.since => RecallOutcome::Expired,
            Some(_) => RecallOutcome::Recalled,
        }
    }

    /// A new message for each inbox that had one of these, so that devices that have read them learn of it, too.
    pub fn notices(&self, recalled: &[Arc<StoredMessage>]) -> Vec<NewMessage> {
        let mut recipients: BTreeMap<&Aid, Vec<&Arc<StoredMessage>>> = BTreeMap::new();
        for message in recalled {
            recipients.entry(&message.to).or_default().push(message);
        }
        let notice = |((to, messages), message_id): ((&Aid, Vec<&Arc<StoredMessage>>), &String)| {
            self.notice(to, message_id, &messages)
        };
        recipients.into_iter().zip(&self.notice_ids).filter_map(notice).collect()
    }

    /// The message that says which messages were recalled, for every inbox that had one of them and was not removed since.
    fn notice(&self, to: &Aid, message_id: &str, messages: &[&Arc<StoredMessage>]) -> Option<NewMessage> {
        let message_ids: Vec<String> = messages.iter().map(|message| message.message_id.clone()).collect();
        let entries = messages.iter().flat_map(|message| &message.entries);
        let entries: BTreeMap<i64, InboxEntry> = entries
            .filter(|entry| self.devices.contains_key(&entry.inbox))
            .map(|entry| (entry.inbox, *entry))
            .collect();
        if entries.is_empty() {
            return None;
        }
        let message = StoredMessage {
            id: 0,
            key: MessageKey::new(&self.from, message_id),
            from: self.from.clone(),
            device: self.device.clone(),
            to: to.clone(),
            message_id: message_id.to_owned(),
            at: self.now,
            kind: MessageKind::Recall,
            entries: entries.into_values().collect(),
            attributes: MessageAttributes {
                kind: Some(stored_message::RECALLED.to_owned()),
                ..MessageAttributes::default()
            },
            body: stored_message::recall_payload(&message_ids, self.now, &self.from),
            copies: Vec::new(),
            recalled_at: None,
            targeted: messages.iter().all(|message| message.targeted),
        };
        let device = |entry: &InboxEntry| self.devices.get(&entry.inbox).cloned().unwrap_or_default();
        let devices = message.entries.iter().map(device).collect();
        Some(NewMessage { message, devices, queue: None, trace: None, tool_call: false })
    }
}

/// Writes messages without the content that was recalled; their seqs stay.
pub(crate) async fn update_recalled(
    tx: &mut Transaction<'static, Any>,
    recalled: &[Arc<StoredMessage>],
) -> sqlx::Result<()> {
    for message in recalled {
        sqlx::query("UPDATE letter SET data = $2 WHERE id = $1")
            .bind(message.id)
            .bind(json(&**message))
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}
