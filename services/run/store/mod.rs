//! Every SQL statement of runs.

mod events_page;
pub(crate) mod keeping;
mod profiles;
mod sessions;
mod tokens;

pub(crate) use events_page::{PagedEvent, PagedEvents};
pub(crate) use profiles::{ProfileRow, WrittenProfile};
pub(crate) use sessions::{ListedSessions, NewSession, ReportedStorage, SessionView};
#[cfg(test)]
pub(crate) use tokens::TokenRun;
pub(crate) use tokens::{NewToken, TokenFacts};

use kernel::{Account, Db};
use sqlx::migrate::Migrator;

/// The tables of runs.
pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

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
}
