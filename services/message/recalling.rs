//! What a recall comes to, and on PostgreSQL its transaction.

use super::append::write_changed;
use super::desk::{self, Desk};
use super::events;
use super::ledger::{Changes, Done, Draft, Outcome, Recall};
use super::mail::Mail;
use super::post::{call, passes};
use super::store::read;
use super::stored_message::{Key, Kind, StoredMessage};
use crate::kernel::Aid;
use sqlx::{Any, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Recall {
    /// What becomes of one of the messages.
    pub fn judge(&self, message: Option<&StoredMessage>) -> Outcome {
        match message {
            None => Outcome::NotFound,
            Some(message) if message.recalled_at.is_some() => Outcome::AlreadyRecalled,
            Some(message) if matches!(message.kind, Kind::Queue | Kind::Recall) => Outcome::NotFound,
            Some(message) if message.at < self.since => Outcome::Expired,
            Some(_) => Outcome::Recalled,
        }
    }

    /// A new row for each inbox that had one of these, so that devices that have read them learn of it, too.
    pub fn notices(&self, taken: &[Arc<StoredMessage>]) -> Vec<Draft> {
        let mut recipients: BTreeMap<&Aid, Vec<&Arc<StoredMessage>>> = BTreeMap::new();
        for message in taken {
            recipients.entry(&message.to).or_default().push(message);
        }
        let notice = |((to, messages), message_id): ((&Aid, Vec<&Arc<StoredMessage>>), &String)| {
            let ids: Vec<String> = messages.iter().map(|message| message.message_id.clone()).collect();
            events::notice(self, to, message_id, &ids, &messages)
        };
        recipients.into_iter().zip(&self.notice_ids).map(notice).collect()
    }
}

impl Desk {
    /// Tried again while others are in the way.
    pub(super) async fn recall(&self, recall: &Recall) -> sqlx::Result<Done> {
        let mut attempt = 1;
        loop {
            match self.try_recall(recall).await {
                Err(error) if attempt < desk::TRIES && passes(&error) => attempt += 1,
                other => return other,
            }
        }
    }

    async fn try_recall(&self, recall: &Recall) -> sqlx::Result<Done> {
        let keys: Vec<Key> = recall.message_ids.iter().map(|id| Key::new(&recall.from, id)).collect();
        let found = self.store.find_all(&keys).await?;
        let mut tx = self.store.db().write().await?;
        let (mut outcomes, mut taken) = (Vec::with_capacity(keys.len()), Vec::<Arc<StoredMessage>>::new());
        for (message_id, key) in recall.message_ids.iter().zip(keys) {
            let message = match (taken.iter().find(|message| message.key == key), found.get(&key)) {
                (Some(taken), _) => Some(taken.clone()),
                (None, Some(found)) => locked(&mut tx, found.id).await?,
                (None, None) => None,
            };
            let outcome = recall.judge(message.as_deref());
            if let (Outcome::Recalled, Some(message)) = (outcome, message) {
                taken.push(Arc::new(message.recalled(recall.now)));
            }
            outcomes.push((message_id.clone(), outcome));
        }
        write_changed(&mut tx, &taken).await?;
        let notices = recall.notices(&taken).into_iter().map(|notice| (notice, Changes::default()));
        let mut mail = Mail::new(notices.collect());
        let open = mail.open();
        if !open.is_empty() {
            let numbers = call(&mut tx, mail.sheet(&open)).await?.numbers()?;
            mail.number(&open, numbers);
        }
        tx.commit().await?;
        self.told(mail).await;
        Ok(Done::Recalled(outcomes))
    }
}

/// The message as it is now, and nobody else changes it before we are done.
async fn locked(tx: &mut Transaction<'static, Any>, id: i64) -> sqlx::Result<Option<Arc<StoredMessage>>> {
    let data: Option<String> = sqlx::query_scalar("SELECT data FROM letter WHERE id = $1 FOR UPDATE")
        .bind(id)
        .fetch_optional(&mut **tx)
        .await?;
    data.map(|data| read(id, &data)).transpose()
}
