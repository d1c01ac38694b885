//! Messages that are stored together with something else, in one transaction: queue messages with their content, and tool
//! calls with their count.

use super::batch::{MessageBatch, give_seqs};
use super::insert::{Inserted, insert, is_devices_changed};
use super::writer::PostgresWriter;
use crate::store::stored_message::StoredMessage;
use crate::store::tool_calls::ToolCallWindows;
use crate::store::write::{CountOutcome, NewMessage, ToolCallCount};
use kernel::Engine;
use sqlx::{Any, Transaction};

impl PostgresWriter {
    /// The content of a queue message is kept for a while in a table of its own: it appears with the message's seq, in one
    /// transaction, not after it.
    pub(super) async fn insert_queued(
        &self,
        batch: &mut MessageBatch,
        open: &[usize],
    ) -> sqlx::Result<Inserted> {
        let mut tx = self.store.db().write().await?;
        let inserted = self.insert_with_content(&mut tx, batch, open).await?;
        if matches!(inserted, Inserted::Seqs(_)) {
            tx.commit().await?;
        }
        Ok(inserted)
    }

    /// Messages among which there are tool calls. Those that come too soon are answered, and the others are stored with the
    /// count.
    ///
    /// The rows of the senders are locked first. Whatever another process counted has then been committed, and so has its
    /// message: a call that was sent before is found before it could be counted, or refused, a second time. Nobody waits for
    /// these rows who has locked anything that this transaction waits for later.
    pub(super) async fn insert_counted(&self, batch: &mut MessageBatch, open: &[usize]) -> sqlx::Result<()> {
        let mut tx = self.store.db().write().await?;
        let mut windows = {
            let senders = batch.tool_calls(open).map(|message| message.from.as_str()).collect();
            ToolCallWindows::lock(&mut tx, &senders).await?
        };
        let keys: Vec<String> = batch.tool_calls(open).map(|message| message.key.text()).collect();
        let stored = stored_before(&mut tx, &keys).await?;
        if !stored.is_empty() {
            tx.rollback().await?;
            batch.answer_duplicates(self.store.messages(stored).await?);
            return Ok(());
        }

        let (mut accepted, mut refused) = (Vec::with_capacity(open.len()), Vec::new());
        for position in open {
            match windows.refuses(&batch.messages[*position].0) {
                Some(retry_after_ms) => refused.push((*position, retry_after_ms)),
                None => accepted.push(*position),
            }
        }
        if accepted.is_empty() {
            tx.rollback().await?;
            batch.refuse(&refused);
            return Ok(());
        }
        match self.insert_with_content(&mut tx, batch, &accepted).await {
            Ok(Inserted::Seqs(seqs)) => {
                windows.write(&mut tx, Engine::Postgres).await?;
                tx.commit().await?;
                batch.give_seqs(&accepted, seqs);
                batch.refuse(&refused);
            }
            // What was decided about the others may be wrong without these: it is decided again at the next try.
            Ok(Inserted::Duplicates(ids)) => {
                tx.rollback().await?;
                batch.answer_duplicates(self.store.messages(ids).await?);
            }
            Err(error) if is_devices_changed(&error) => {
                tx.rollback().await?;
                self.find_changed(batch, &accepted).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Tool calls that are counted and not stored here.
    pub(super) async fn count(&self, counts: &[ToolCallCount]) -> sqlx::Result<Vec<CountOutcome>> {
        if counts.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.store.db().write().await?;
        let senders = counts.iter().map(|count| count.from.as_str()).collect();
        let mut windows = ToolCallWindows::lock(&mut tx, &senders).await?;
        let outcomes = counts.iter().map(|count| windows.change(count)).collect();
        windows.write(&mut tx, Engine::Postgres).await?;
        tx.commit().await?;
        Ok(outcomes)
    }

    /// Stores messages, and the content of queue messages.
    async fn insert_with_content(
        &self,
        tx: &mut Transaction<'static, Any>,
        batch: &mut MessageBatch,
        open: &[usize],
    ) -> sqlx::Result<Inserted> {
        let rows = batch.without_seqs(open);
        let seqs = match insert(&mut *tx, rows).await? {
            Inserted::Seqs(seqs) => seqs,
            duplicates => return Ok(duplicates),
        };
        let (mut given, mut queued) = (seqs.iter().copied(), Vec::new());
        for position in open {
            let NewMessage { message, queue, .. } = &batch.messages[*position].0;
            let mut message = message.clone();
            give_seqs(&mut message, &mut given);
            queued
                .extend(queue.as_ref().map(|queue| StoredMessage { body: queue.payload.clone(), ..message }));
        }
        // In one order in every process, like the heads of the inboxes: two commits never wait for each other.
        queued.sort_by(|a, b| a.to.as_str().cmp(b.to.as_str()));
        for message in &queued {
            self.queue_messages.insert(tx, message).await?;
        }
        Ok(Inserted::Seqs(seqs))
    }
}

/// The ids of the messages that are stored already under these keys.
async fn stored_before(tx: &mut Transaction<'static, Any>, keys: &[String]) -> sqlx::Result<Vec<i64>> {
    sqlx::query_scalar("SELECT id FROM letter WHERE key = ANY(CAST(string_to_array($1, ',') AS UUID[]))")
        .bind(keys.join(","))
        .fetch_all(&mut **tx)
        .await
}
