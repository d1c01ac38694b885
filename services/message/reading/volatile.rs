//! Messages with a ttl, as clients read and acknowledge them: by cursors of their own.

use super::consumer::Consumer;
use super::page::{MessagePage, RowFit, RowForm};
use crate::delivery::rows::VolatileFields;
use crate::store::ephemeral::shared_rows::{self, RowList};
use crate::store::ephemeral::volatile::{LIST, VolatileMessages, VolatilePage};
use crate::store::stored_message::StoredMessage;
use crate::{Error, MessageService};
use proto_schemas::requests::message::VolatileAckCounts;
use std::sync::Arc;

const MAX_ROWS: usize = 200;

/// What a page says of messages with a ttl.
pub(crate) struct VolatilePageFields {
    pub latest_volatile_cursor: Option<String>,
    pub volatile_has_more: bool,
    pub volatile_earliest_cursor: Option<String>,
    pub volatile_dropped_count: u64,
}

/// What an acknowledgement names of messages that have no seq.
pub(crate) struct VolatileNames {
    pub cursors: Vec<String>,
    pub message_ids: Vec<String>,
}

impl VolatileNames {
    pub fn new(
        cursor: Option<String>,
        cursors: Option<Vec<String>>,
        message_ids: Option<Vec<String>>,
    ) -> VolatileNames {
        let mut cursors = cursors.unwrap_or_default();
        cursors.extend(cursor);
        VolatileNames { cursors, message_ids: message_ids.unwrap_or_default() }
    }

    pub fn is_empty(&self) -> bool {
        self.cursors.is_empty() && self.message_ids.is_empty()
    }
}

impl MessageService {
    /// The messages with a ttl in an inbox, in memory or as all processes share them.
    pub(crate) async fn with_volatile<R>(
        &self,
        inbox: i64,
        read: impl FnOnce(&VolatileMessages<Arc<StoredMessage>>) -> R,
    ) -> sqlx::Result<R> {
        let Some(shared) = &self.shared else { return Ok(read(&self.volatile)) };
        let mut connection = shared.reader().await?;
        Ok(read(&VolatileMessages::copy(shared, &mut connection, inbox).await?))
    }

    /// Adds messages with a ttl to a page, as many as fit beside the rows that are in it.
    pub(crate) async fn add_volatile(
        &self,
        consumer: &Consumer,
        cursor: Option<&str>,
        sender: Option<&str>,
        form: RowForm,
        page: &mut MessagePage,
    ) -> Result<VolatilePageFields, Error> {
        let VolatilePage { rows, latest_cursor, has_more, earliest_cursor, dropped_count } = self
            .with_volatile(consumer.inbox, |volatile| {
                volatile.after(consumer.inbox, cursor, sender, self.clock.now_ms(), MAX_ROWS)
            })
            .await??;
        let mut fields = VolatilePageFields {
            latest_volatile_cursor: latest_cursor,
            volatile_has_more: has_more,
            volatile_earliest_cursor: earliest_cursor,
            volatile_dropped_count: dropped_count,
        };
        let stored = page.rows.len();
        let mut reached = cursor.filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        for (volatile_cursor, row) in rows {
            let (created_at, expires_at) = (row.created_at, row.expires_at);
            let volatile = VolatileFields { storage: "volatile", volatile_cursor, created_at, expires_at };
            if page.add(consumer, form, &row.message, Some(&volatile)) == RowFit::Full {
                // Clients go on for these only after a page that had one of them. Where stored rows left no space for any, it is
                // `has_more` that makes them ask again, after those rows.
                page.more |= page.rows.len() == stored;
                fields.latest_volatile_cursor = reached;
                fields.volatile_has_more = true;
                break;
            }
            reached = Some(volatile.volatile_cursor);
        }
        Ok(fields)
    }

    pub(crate) async fn ack_volatile(
        &self,
        consumer: &Consumer,
        names: &VolatileNames,
    ) -> Result<Option<VolatileAckCounts>, Error> {
        if names.is_empty() {
            return Ok(None);
        }
        let (accepted, expired) = self.remove_volatile(consumer.inbox, names).await?;
        Ok(Some(VolatileAckCounts { accepted, expired }))
    }

    /// Removes exactly the rows named. Gives how many there were, and how many were not found.
    async fn remove_volatile(&self, inbox: i64, names: &VolatileNames) -> sqlx::Result<(usize, usize)> {
        let VolatileNames { cursors, message_ids } = names;
        let Some(shared) = &self.shared else { return Ok(self.volatile.ack(inbox, cursors, message_ids)) };
        let key = inbox.to_string();
        let list = RowList { kind: LIST, key: &key };
        let mut tx = shared.lock(list).await?;
        let copy = VolatileMessages::copy(shared, &mut tx, inbox).await?;
        let mut removed = copy.row_ids(inbox);
        let counts = copy.ack(inbox, cursors, message_ids);
        let left = copy.row_ids(inbox);
        removed.retain(|id| !left.contains(id));
        shared_rows::remove(&mut tx, list, &removed).await?;
        tx.commit().await?;
        Ok(counts)
    }
}
