//! The transaction of a recall.

use super::batch::MessageBatch;
use super::insert::{Inserted, insert, may_succeed_later};
use super::writer::{PostgresWriter, TRIES};
use crate::store::error::StoreError;
use crate::store::recall::update_recalled;
use crate::store::stored_message::{MessageKey, StoredMessage};
use crate::store::write::{DeviceChanges, Recall, RecallOutcome, RecallOutcomes};
use sqlx::{Any, Transaction};
use std::sync::Arc;

impl PostgresWriter {
    /// Tried again while other commits are in the way.
    pub(super) async fn recall(&self, recall: &Recall) -> Result<RecallOutcomes, StoreError> {
        let mut attempt = 1;
        loop {
            match self.try_recall(recall).await {
                Err(StoreError::Sql(error)) if attempt < TRIES && may_succeed_later(&error) => attempt += 1,
                other => return other,
            }
        }
    }

    async fn try_recall(&self, recall: &Recall) -> Result<RecallOutcomes, StoreError> {
        let keys: Vec<MessageKey> =
            recall.message_ids.iter().map(|id| MessageKey::new(&recall.from, id)).collect();
        let found = self.store.find_all(&keys).await?;
        let mut tx = self.store.db().write().await?;
        let (mut outcomes, mut recalled) = (Vec::with_capacity(keys.len()), Vec::<Arc<StoredMessage>>::new());
        for (message_id, key) in recall.message_ids.iter().zip(keys) {
            let message = match (recalled.iter().find(|message| message.key == key), found.get(&key)) {
                (Some(recalled), _) => Some(recalled.clone()),
                (None, Some(found)) => lock(&mut tx, found.id).await?,
                (None, None) => None,
            };
            let outcome = recall.decide(message.as_deref());
            if let (RecallOutcome::Recalled, Some(message)) = (outcome, message) {
                recalled.push(Arc::new(message.recalled(recall.now)));
            }
            outcomes.push((message_id.clone(), outcome));
        }
        update_recalled(&mut tx, &recalled).await?;
        let notices = recall.notices(&recalled).into_iter().map(|notice| (notice, DeviceChanges::default()));
        let mut batch = MessageBatch::new(notices.collect());
        let open = batch.open();
        if !open.is_empty() {
            let Inserted::Seqs(seqs) = insert(&mut tx, batch.without_seqs(&open)).await? else {
                return Err(StoreError::NoticeIdInUse);
            };
            batch.give_seqs(&open, seqs);
        }
        tx.commit().await?;
        self.show(batch).await;
        Ok(outcomes)
    }
}

/// The message as it is now; nobody else changes it before this transaction ends.
async fn lock(tx: &mut Transaction<'static, Any>, id: i64) -> sqlx::Result<Option<Arc<StoredMessage>>> {
    let data: Option<String> = sqlx::query_scalar("SELECT data FROM letter WHERE id = $1 FOR UPDATE")
        .bind(id)
        .fetch_optional(&mut **tx)
        .await?;
    data.map(|data| StoredMessage::read(id, &data)).transpose()
}
