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
use super::write::{CommittedMessage, Write, WriteOutcome};
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
                queue_limits: queue_messages.limits,
            };
            let batch = writer.start(&world.tracker, tally.clone(), QUEUE_BYTES);
            return Ok(Ledger { writer: Writer::Postgres(batch), store, tally });
        }
        let counted = Arc::downgrade(&store);
        tally.set_unindexed(move || counted.upgrade().map_or(0, |store| store.unindexed().1));
        let last: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) FROM letter")
            .fetch_one(store.db().read())
            .await?;
        let writer = SqliteWriter { store: store.clone(), queue_messages, committed, last, unsure: false };
        let commit = |mut writer: SqliteWriter, writes| async move {
            let written = writer.commit(writes).await;
            (writer, written)
        };
        let batch = Batch::start_with(&world.tracker, tally.clone(), QUEUE_BYTES, writer, commit);
        Ok(Ledger { writer: Writer::Sqlite(batch), store, tally })
    }

    /// Waits until the write is durable.
    pub async fn write(&self, write: Write) -> Result<WriteOutcome, StoreError> {
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
