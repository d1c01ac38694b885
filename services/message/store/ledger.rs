//! Where messages, cursors and recalls are written: many at a time, in one transaction, in one order.
//!
//! A seq is given inside the commit. If the commit fails, nobody has seen it and the next message gets it.

use super::Store;
use super::ephemeral::queue_messages::QueueMessages;
use super::error::StoreError;
use super::postgres::last_seqs::LastSeqs;
use super::postgres::writer::PostgresWriter;
use super::sqlite::writer::SqliteWriter;
use super::stored_message::StoredMessage;
use super::write::{
    AckOutcome, CommittedMessage, CountOutcome, CursorAdvance, DeviceChanges, NewMessage, Recall,
    RecallOutcomes, SendOutcome, ToolCallCount, Write, WriteOutcome,
};
use kernel::{Batch, Engine, Tally, World};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What may wait for a commit.
const QUEUE_BYTES: usize = 64 << 20;
/// What may wait to be indexed before nothing more is accepted.
const MAX_UNINDEXED_BYTES: usize = 64 << 20;

pub(crate) struct Ledger {
    writer: Writer,
    store: Arc<Store>,
    tally: Arc<Tally>,
}

enum Writer {
    Sqlite(Batch<Write, WriteOutcome>),
    Postgres(Batch<Write, WriteOutcome, Arc<StoreError>>),
}

impl Ledger {
    /// Whatever was committed is sent to `committed`, in the order of the commits.
    pub async fn open(
        world: &World,
        store: Arc<Store>,
        queue_messages: Arc<QueueMessages<Arc<StoredMessage>>>,
        committed: mpsc::Sender<Vec<CommittedMessage>>,
    ) -> sqlx::Result<Ledger> {
        let tally = world.stores.tally("message");
        if store.db().engine() == Engine::Postgres {
            let writer = PostgresWriter {
                store: store.clone(),
                committed,
                last_seqs: LastSeqs::default(),
                queue_messages,
            };
            let batch = writer.start(&world.tracker, tally.clone(), QUEUE_BYTES);
            return Ok(Ledger { writer: Writer::Postgres(batch), store, tally });
        }
        let counted = Arc::downgrade(&store);
        tally.set_unindexed(move || counted.upgrade().map_or(0, |store| store.unindexed().1));
        let last = store.last_id().await?;
        let writer = SqliteWriter { store: store.clone(), queue_messages, committed, last, unsure: false };
        let commit = |mut writer: SqliteWriter, writes| async move {
            let written = writer.commit(writes).await;
            (writer, written)
        };
        let batch = Batch::start_with(&world.tracker, tally.clone(), QUEUE_BYTES, writer, commit);
        Ok(Ledger { writer: Writer::Sqlite(batch), store, tally })
    }

    /// Stores a message and gives it its seqs.
    pub async fn send(&self, new: NewMessage, changes: DeviceChanges) -> Result<SendOutcome, StoreError> {
        match self.write(Write::Send(Box::new(new), changes)).await? {
            WriteOutcome::Send(outcome) => Ok(outcome),
            WriteOutcome::Ack(_) | WriteOutcome::Recall(_) | WriteOutcome::Count(_) => {
                Err(StoreError::OtherKind)
            }
        }
    }

    /// Moves a cursor forward.
    pub async fn ack(&self, advance: CursorAdvance) -> Result<AckOutcome, StoreError> {
        match self.write(Write::Ack(advance)).await? {
            WriteOutcome::Ack(outcome) => Ok(outcome),
            WriteOutcome::Send(_) | WriteOutcome::Recall(_) | WriteOutcome::Count(_) => {
                Err(StoreError::OtherKind)
            }
        }
    }

    /// Recalls messages, and stores the notices about it.
    pub async fn recall(&self, recall: Recall) -> Result<RecallOutcomes, StoreError> {
        match self.write(Write::Recall(Box::new(recall))).await? {
            WriteOutcome::Recall(outcomes) => Ok(outcomes),
            WriteOutcome::Send(_) | WriteOutcome::Ack(_) | WriteOutcome::Count(_) => {
                Err(StoreError::OtherKind)
            }
        }
    }

    /// Counts a tool call that no commit stores, or takes its count back.
    pub async fn count(&self, count: ToolCallCount) -> Result<CountOutcome, StoreError> {
        match self.write(Write::Count(count)).await? {
            WriteOutcome::Count(outcome) => Ok(outcome),
            WriteOutcome::Send(_) | WriteOutcome::Ack(_) | WriteOutcome::Recall(_) => {
                Err(StoreError::OtherKind)
            }
        }
    }

    /// Waits until the write is durable.
    async fn write(&self, write: Write) -> Result<WriteOutcome, StoreError> {
        let (_, unindexed) = self.store.unindexed();
        if unindexed > MAX_UNINDEXED_BYTES {
            self.tally.refuse();
            return Err(StoreError::Unindexed(unindexed));
        }
        let bytes = write.bytes();
        match &self.writer {
            Writer::Sqlite(batch) => Ok(batch.submit(write, bytes).await?),
            Writer::Postgres(batch) => Ok(batch.submit(write, bytes).await?),
        }
    }
}
