//! Every SQL statement of runs.

mod events_page;
pub(crate) mod keeping;
mod load;
mod maintenance;
mod pages;
mod profiles;
mod read;
mod row;
mod run_tasks;
mod sessions;
mod threads;
mod tokens;
mod validations;
mod wanted;
mod write;

pub(crate) use events_page::{PagedEvent, PagedEvents};
pub(crate) use pages::{BoundedPage, ListedRuns};
pub(crate) use profiles::{ProfileRow, WrittenProfile};
pub(crate) use read::{CommandRead, RunFacts};
pub(crate) use run_tasks::RunTaskRow;
pub(crate) use sessions::{FoundStorage, ListedSessions, NewSession, ReportingLease, RunSessionView};
pub(crate) use threads::{MessageView, PartView};
#[cfg(test)]
pub(crate) use tokens::TokenRun;
pub(crate) use tokens::{NewToken, TokenFacts};
pub(crate) use validations::{ValidationEnd, ValidationRow};
pub(crate) use wanted::RunsWanted;

use kernel::{Account, Db, Engine};
use sqlx::migrate::Migrator;
use sqlx::{Any, Transaction};

/// The tables of runs.
pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

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
