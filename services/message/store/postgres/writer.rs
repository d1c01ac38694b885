//! A commit is one call, which stores messages with their seqs or does nothing. Where the last seqs are known in this process
//! it is `post_numbered`; otherwise, or where they were not the last any more, `post` finds them.

use super::batch::MessageBatch;
use super::insert::{
    InsertRefused, Inserted, insert, insert_with_seqs, is_devices_changed, may_succeed_later, refused,
};
use super::last_seqs::LastSeqs;
use crate::store::Store;
use crate::store::bind::{array, json};
use crate::store::ephemeral::queue_messages::QueueMessages;
use crate::store::error::StoreError;
use crate::store::stored_message::StoredMessage;
use crate::store::write::{
    AckOutcome, CommittedMessage, CursorAdvance, DeviceChanges, NewMessage, SendOutcome, Write, WriteOutcome,
};
use kernel::{Batch, Tally};
use sqlx::Any;
use sqlx::pool::PoolConnection;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

/// Commits at a time: while one waits for its disk, the next is on its way.
const CONCURRENT_COMMITS: usize = 2;
/// After this the database counts as unreachable, and the senders are told to try again. A message that was stored all the
/// same is then found by its key.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a commit is tried that another process was in the way of.
pub(super) const TRIES: usize = 6;

pub(crate) struct PostgresWriter {
    pub store: Arc<Store>,
    /// Whatever is durable goes here, to be published.
    pub committed: mpsc::Sender<Vec<CommittedMessage>>,
    pub last_seqs: LastSeqs,
    pub queue_messages: Arc<QueueMessages<Arc<StoredMessage>>>,
}

/// A connection kept from commit to commit, so that none has to check whether it is still open. Dropped after any error.
type HeldConnection = Option<PoolConnection<Any>>;

/// What became of one write of a commit. One failure may be that of many.
type WriteResult = Result<WriteOutcome, Arc<StoreError>>;

impl PostgresWriter {
    /// Commits at once have no inbox in common, so what is for one inbox happens one after the other.
    pub fn start(
        self,
        tracker: &TaskTracker,
        tally: Arc<Tally>,
        queue_bytes: usize,
    ) -> Batch<Write, WriteOutcome, Arc<StoreError>> {
        let writer = Arc::new(self);
        let held: Vec<HeldConnection> = (0..CONCURRENT_COMMITS).map(|_| None).collect();
        Batch::start_keyed(tracker, tally, queue_bytes, held, Write::inboxes, move |held, writes| {
            let writer = writer.clone();
            async move { writer.commit_in_time(held, writes).await }
        })
    }

    async fn commit_in_time(
        &self,
        mut held: HeldConnection,
        writes: Vec<Write>,
    ) -> (HeldConnection, Vec<WriteResult>) {
        let count = writes.len();
        let committed = tokio::time::timeout(COMMIT_TIMEOUT, self.commit(&mut held, writes)).await;
        match committed {
            Ok(results) => (held, results),
            // The connection is in the middle of something.
            Err(_) => {
                let late = Arc::new(StoreError::Deadline(COMMIT_TIMEOUT.as_secs()));
                (None, (0..count).map(|_| Err(late.clone())).collect())
            }
        }
    }

    /// Messages, cursors, recalls and counts are a transaction each kind. Gives an outcome for each write, in order.
    async fn commit(&self, held: &mut HeldConnection, writes: Vec<Write>) -> Vec<WriteResult> {
        let mut results: Vec<Option<WriteResult>> = writes.iter().map(|_| None).collect();
        let (mut sends, mut messages, mut acks, mut advances) = (vec![], vec![], vec![], vec![]);
        let (mut counts, mut tool_calls) = (vec![], vec![]);
        for (position, write) in writes.into_iter().enumerate() {
            match write {
                Write::Send(new, changes) => {
                    sends.push(position);
                    messages.push((*new, changes));
                }
                Write::Ack(advance) => {
                    acks.push(position);
                    advances.push(advance);
                }
                Write::Count(count) => {
                    counts.push(position);
                    tool_calls.push(count);
                }
                Write::Recall(recall) => {
                    let recalled = self.recall(&recall).await;
                    results[position] = Some(recalled.map(WriteOutcome::Recall).map_err(Arc::new));
                }
            }
        }
        fill(&mut results, &sends, self.send(held, messages).await, WriteOutcome::Send);
        let counted = self.count(&tool_calls).await.map_err(StoreError::from);
        fill(&mut results, &counts, counted, WriteOutcome::Count);
        let acked = self.advance(held, advances).await.map_err(StoreError::from);
        fill(&mut results, &acks, acked, WriteOutcome::Ack);
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(|| Err(Arc::new(StoreError::LeftOut))))
            .collect()
    }

    async fn send(
        &self,
        held: &mut HeldConnection,
        messages: Vec<(NewMessage, DeviceChanges)>,
    ) -> Result<Vec<SendOutcome>, StoreError> {
        let mut batch = MessageBatch::new(messages);
        for attempt in 1.. {
            let open = batch.open();
            if open.is_empty() {
                break;
            }
            if attempt > TRIES {
                return Err(StoreError::OutOfTries(TRIES));
            }
            match self.try_insert(held, &mut batch, &open).await {
                Ok(()) => {}
                Err(error) if attempt < TRIES && may_succeed_later(&error) => {
                    *held = None;
                    // PostgreSQL answered if it is its own error; otherwise the commit may have happened.
                    batch.answer_lost |= !matches!(error, sqlx::Error::Database(_));
                }
                Err(error) => {
                    *held = None;
                    return Err(error.into());
                }
            }
        }
        Ok(self.show(batch).await)
    }

    /// One round trip, unless there is more to store than the messages. Messages that were stored before, or are addressed to
    /// other devices than their recipient has, are answered; the rest stays open for the next try.
    async fn try_insert(
        &self,
        held: &mut HeldConnection,
        batch: &mut MessageBatch,
        open: &[usize],
    ) -> sqlx::Result<()> {
        if batch.tool_calls(open).next().is_some() {
            // Boxed, because most commits do without.
            return Box::pin(self.insert_counted(batch, open)).await;
        }
        let inserted = match open.iter().any(|position| batch.messages[*position].0.queue.is_some()) {
            true => self.insert_queued(batch, open).await,
            false => self.insert_plain(held, batch, open).await,
        };
        match inserted {
            Ok(Inserted::Duplicates(ids)) => batch.answer_duplicates(self.store.messages(ids).await?),
            Ok(Inserted::Seqs(seqs)) => batch.give_seqs(open, seqs),
            Err(error) if is_devices_changed(&error) => self.find_changed(batch, open).await?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn insert_plain(
        &self,
        held: &mut HeldConnection,
        batch: &mut MessageBatch,
        open: &[usize],
    ) -> sqlx::Result<Inserted> {
        let connection = self.connection(held).await?;
        if let Some(with_seqs) = batch.with_seqs(open, &self.last_seqs) {
            match insert_with_seqs(connection, &with_seqs).await {
                Ok(()) => return Ok(Inserted::Seqs(with_seqs.seqs)),
                Err(error) => match refused(&error) {
                    Some(InsertRefused::Seqs) => self.last_seqs.were_wrong(),
                    Some(InsertRefused::Duplicate) => {}
                    None => return Err(error),
                },
            }
        }
        insert(connection, batch.without_seqs(open)).await
    }

    /// Answers the messages whose recipients have other devices than those they were addressed to.
    pub(super) async fn find_changed(&self, batch: &mut MessageBatch, open: &[usize]) -> sqlx::Result<()> {
        let checked = |position: &usize| batch.messages[*position].1.0.iter().map(|(inbox, _)| *inbox);
        let inboxes: Vec<i64> = open.iter().flat_map(checked).collect();
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("SELECT inbox, changes FROM head WHERE inbox = ANY(CAST($1 AS BIGINT[]))")
                .bind(array(inboxes))
                .fetch_all(self.store.db().read())
                .await?;
        let now: HashMap<i64, i64> = rows.into_iter().collect();
        for position in open {
            let same = |(inbox, changes): &(i64, i64)| now.get(inbox) == Some(changes);
            if !batch.messages[*position].1.0.iter().all(same) {
                batch.written[*position] = Some(SendOutcome::DevicesChanged);
            }
        }
        Ok(())
    }

    /// Only what is durable is shown to anyone.
    pub(super) async fn show(&self, batch: MessageBatch) -> Vec<SendOutcome> {
        for entry in batch.stored_entries() {
            self.last_seqs.put(entry.inbox, entry.seq);
        }
        let (written, committed) = batch.into_written();
        if !committed.is_empty() {
            // Only fails when the server is stopping and nobody receives.
            let _ = self.committed.send(committed).await;
        }
        written
    }

    async fn advance(
        &self,
        held: &mut HeldConnection,
        advances: Vec<CursorAdvance>,
    ) -> sqlx::Result<Vec<AckOutcome>> {
        let mut wanted: Vec<(i64, &str, &str, i64, usize)> = advances
            .iter()
            .enumerate()
            .map(|(position, ack)| (ack.inbox, ack.slot.as_str(), ack.sender.as_str(), ack.seq, position))
            .collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        // By cursor, and of one cursor in the order they came.
        wanted.sort_by_key(|(inbox, slot, sender, _, position)| (*inbox, *slot, *sender, *position));
        let text = json(&wanted);
        let mut attempt = 1;
        let rows: Vec<(i64, i64, i64)> = loop {
            let connection = self.connection(held).await?;
            let query = sqlx::query_as("SELECT nth, was, is_now FROM advance($1)").bind(text.as_str());
            match query.fetch_all(&mut **connection).await {
                Ok(rows) => break rows,
                Err(error) if attempt == TRIES || !may_succeed_later(&error) => {
                    *held = None;
                    return Err(error);
                }
                Err(_) => *held = None,
            }
            attempt += 1;
        };
        let mut acked: Vec<(usize, AckOutcome)> = rows
            .into_iter()
            .zip(&wanted)
            .map(|((_, before, now), (.., position))| (*position, AckOutcome { before, now }))
            .collect();
        acked.sort_by_key(|(position, _)| *position);
        Ok(acked.into_iter().map(|(_, written)| written).collect())
    }

    async fn connection<'h>(
        &self,
        held: &'h mut HeldConnection,
    ) -> sqlx::Result<&'h mut PoolConnection<Any>> {
        Ok(match held {
            Some(connection) => connection,
            None => held.insert(self.store.db().write_alone().acquire().await?),
        })
    }
}

fn fill<T>(
    results: &mut [Option<WriteResult>],
    positions: &[usize],
    written: Result<Vec<T>, StoreError>,
    outcome: fn(T) -> WriteOutcome,
) {
    match written {
        Ok(written) => {
            for (position, written) in positions.iter().zip(written) {
                results[*position] = Some(Ok(outcome(written)));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for position in positions {
                results[*position] = Some(Err(error.clone()));
            }
        }
    }
}
