//! Every SQL statement of `task.*`.

mod assigned;
mod ended_agents;
pub(super) mod keeping;
mod list;
mod load;
mod maintenance;
mod old_content;
mod read;
mod relays;
mod row;
mod stub_list;
mod stub_row;
mod stubs;
mod subscriptions;
mod wanted;
mod write;

pub(super) use ended_agents::{EndedTasksPage, TaskSide};
pub(super) use list::{ListPosition, ListWanted};
pub(super) use read::{MessagesWanted, TaskDetails};
pub(super) use relays::{MOST_DOMAINS, MOST_ITEMS, RELAYS};
pub(super) use stub_row::{StubKey, StubRow};
pub(super) use stubs::StubsWritten;
pub(super) use subscriptions::{Subscriber, SubscriberKey};
pub(super) use wanted::LoadWanted;
pub(super) use write::SUBSCRIBED_MS;

use super::model::state::TaskState;
use kernel::{Account, Db, Engine, Outbox};
use sqlx::{Any, Transaction};
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct Store {
    db: Db,
    /// What other domains have yet to learn.
    pub outbox: Arc<Outbox>,
    pub account: Account,
}

impl Store {
    pub fn new(db: Db, outbox: Arc<Outbox>, account: Account) -> Store {
        Store { db, outbox, account }
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    /// A transaction that writes.
    pub async fn begin(&self) -> sqlx::Result<Transaction<'static, Any>> {
        self.db.write().await
    }

    /// A transaction that reads, in which every statement sees the same state.
    async fn snapshot(&self) -> sqlx::Result<Transaction<'static, Any>> {
        let mut tx = self.db.read().begin().await?;
        if self.db.engine() == Engine::Postgres {
            sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                .execute(&mut *tx)
                .await?;
        }
        Ok(tx)
    }

    fn engine(&self) -> Engine {
        self.db.engine()
    }

    pub async fn checkpoint(&self) -> sqlx::Result<()> {
        self.db.checkpoint().await
    }
}

/// The states in which a task has ended, as a list for SQL.
fn terminal_states() -> String {
    let ended = TaskState::ALL.into_iter().filter(|state| state.is_terminal());
    ended.map(|state| format!("'{state}'")).collect::<Vec<_>>().join(", ")
}
