//! Every SQL statement of runs.

mod events;
pub(crate) mod keeping;
mod load;
mod maintenance;
mod read;
mod row;
mod wanted;
mod write;

pub(crate) use events::{EventsWanted, kind_of, kind_word};
pub(crate) use read::{CommandFacts, NewRunnerRow, RunFacts};
pub(crate) use row::StoredEvent;
pub(crate) use wanted::LoadWanted;

use kernel::{Account, Db, Engine};
use sqlx::{Any, Transaction};

#[derive(Clone)]
pub(crate) struct Store {
    db: Db,
    pub account: Account,
}

impl Store {
    pub fn new(db: Db, account: Account) -> Store {
        Store { db, account }
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    /// A transaction that writes, for a batch, which counts it.
    pub async fn begin(&self) -> sqlx::Result<Transaction<'static, Any>> {
        self.db.write().await
    }

    fn engine(&self) -> Engine {
        self.db.engine()
    }

    pub async fn checkpoint(&self) -> sqlx::Result<()> {
        self.db.checkpoint().await
    }
}
