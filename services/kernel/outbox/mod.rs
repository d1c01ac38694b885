//! The outbox: what must reach somebody, and waits in the store until it has.
//!
//! A row is written in the transaction of its cause ([`Outbox::add`], [`Outbox::mark_statement`]), so it is there if and only if
//! its cause is. The rows of one owner for one destination are sent in order, and owners take turns. One process at a time sends to a
//! destination, which has the lease of it.
//! Rows are removed after they were sent: a process that ends in between leaves them to the next one, which sends them again. So
//! nothing is lost, and now and then something is sent twice.
//!
//! Rows are of one of two kinds. With a payload each row is sent as it was written. A mark says that something has changed and up
//! to which version: what is sent is read when it is sent, and a thousand changes of one thing are one row.
//!
//! The tables are made by the migrations of the service, in its own database. For an outbox of the name `relay` they are
//!
//! ```sql
//! CREATE TABLE relay_outbox (
//!     key TEXT NOT NULL,             -- names the row; of a mark, what has changed
//!     destination TEXT NOT NULL,
//!     position BIGINT NOT NULL,      -- the order at its destination; of a mark, the time from which on it is sent
//!     owner TEXT NOT NULL,           -- whose row it is, and who has a turn for it
//!     bytes BIGINT NOT NULL,
//!     created_at BIGINT NOT NULL,
//!     expires_at BIGINT,
//!     tried_at BIGINT,               -- when it may have arrived, though it waits
//!     version BIGINT NOT NULL,       -- of a mark: up to which version its destination has yet to learn of it
//!     progress TEXT,                 -- of a row that is sent in parts: up to where it was
//!     subject TEXT,                  -- of a payload: what it is about, if a newer row about the same replaces it
//!     data TEXT NOT NULL
//! );                                 -- UNIQUE (key) for payloads, PRIMARY KEY (key, destination) for marks
//! CREATE INDEX relay_outbox_order ON relay_outbox (destination, position, key, bytes);
//! CREATE INDEX relay_outbox_turns ON relay_outbox (destination, owner, position, key, bytes);
//! CREATE INDEX relay_outbox_expiry ON relay_outbox (destination, expires_at) WHERE expires_at IS NOT NULL;   -- not for marks
//! CREATE INDEX relay_outbox_subject ON relay_outbox (destination, subject) WHERE subject IS NOT NULL;         -- if rows have any
//! CREATE INDEX relay_outbox_owner ON relay_outbox (owner, position, key, destination);   -- if destinations belong to owners
//! CREATE TABLE relay_destination (
//!     destination TEXT PRIMARY KEY,
//!     waiting BIGINT NOT NULL DEFAULT 0,        -- rows with a payload, and their bytes
//!     bytes BIGINT NOT NULL DEFAULT 0,
//!     fence BIGINT NOT NULL DEFAULT 0,
//!     leased_until BIGINT NOT NULL DEFAULT 0,
//!     sending BIGINT NOT NULL DEFAULT 0,        -- rows up to this position may be on their way at this moment
//!     attempts BIGINT NOT NULL DEFAULT 0,       -- failures in a row
//!     next_try BIGINT NOT NULL DEFAULT 0,
//!     last_error TEXT,
//!     delivered BIGINT NOT NULL DEFAULT 0,
//!     refused BIGINT NOT NULL DEFAULT 0,
//!     expired BIGINT NOT NULL DEFAULT 0,
//!     last_owner TEXT NOT NULL DEFAULT '',      -- who had the last turn
//!     answered BIGINT NOT NULL DEFAULT 0        -- 1 if what was sent last was delivered
//! );
//! ```
//!
//! and, where rows that ended are kept, `relay_ended` with `key`, `destination`, `owner`, `outcome` (`delivered` or `given_up`),
//! `reason`, `attempts`, `created_at`, `ended_at` and `data`.

mod add;
mod due;
mod give_up;
mod listing;
mod marks;
mod owners;
mod page;
mod retry;
mod rows;
mod send;
mod settings;
mod settle;
#[cfg(test)]
mod tests;
mod wake;
mod withdraw;

pub use due::{SendSlot, SendSlots};
pub use listing::{DestinationState, OutboxEntry};
pub use marks::NewMark;
pub use page::{OutboxPage, PageOutcome, RowEnd, SendFailure, SettledRow};
pub use retry::Retry;
pub use rows::{NewOutboxRow, OutboxRow};
pub use send::OutboxSender;
pub use settings::{OutboxSettings, OwnedDestinations, RowKind};
pub use withdraw::OutboxWithdrawal;

use super::{Clock, Db, Ids, Leases, World};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use wake::Wake;

pub struct Outbox {
    db: Db,
    settings: OutboxSettings,
    tables: OutboxTables,
    leases: Leases,
    /// The position that was given last.
    last: AtomicI64,
    wake: Arc<Wake>,
    slots: Arc<SendSlots>,
    /// The destinations that could not be sent to when it was last looked.
    failing: Mutex<HashSet<String>>,
    /// When destinations for which nothing waits were last removed.
    forgot_at: AtomicI64,
    clock: Clock,
    ids: Ids,
}

/// The names of the tables, which are part of the SQL texts.
struct OutboxTables {
    rows: String,
    destinations: String,
    ended: String,
}

impl Outbox {
    pub async fn open(world: &World, db: &Db, settings: OutboxSettings) -> sqlx::Result<Arc<Outbox>> {
        Outbox::open_sharing(world, db, settings, Arc::default()).await
    }

    /// An outbox that shares its limits of what is sent at once with others of the same limits. A destination of this name is sent to
    /// by one of them at a time.
    pub async fn open_sharing(
        world: &World,
        db: &Db,
        settings: OutboxSettings,
        slots: Arc<SendSlots>,
    ) -> sqlx::Result<Arc<Outbox>> {
        let table = |of: &str| format!("{}_{of}", settings.name);
        let tables =
            OutboxTables { rows: table("outbox"), destinations: table("destination"), ended: table("ended") };
        let lease_ms = i64::try_from(settings.lease.as_millis()).unwrap_or(i64::MAX / 2);
        let leases = Leases::new(db, &tables.destinations, "destination", lease_ms);
        leases.end_left_over().await?;
        let wake = Arc::<Wake>::default();
        if settings.to_peers {
            wake.clone().listen(&world.bus);
        }
        Ok(Arc::new(Outbox {
            db: db.clone(),
            settings,
            tables,
            leases,
            last: AtomicI64::new(0),
            wake,
            slots,
            failing: Mutex::default(),
            forgot_at: AtomicI64::new(world.clock.now_ms()),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
        }))
    }

    /// The position of a row in the order: taken when its cause comes, whatever is tried before the row is written.
    pub fn next_position(&self, now: i64) -> i64 {
        let next = |last: i64| (last + 1).max(now << 20);
        let before = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(before.unwrap_or_default())
    }

    /// Has what was written sent before the next look. Called after the commit.
    pub fn wake(&self) {
        self.wake.notify.notify_one();
    }

    /// Whether a destination could not be sent to when it was last looked, at most a second ago. For a service that sends at once,
    /// while its marks wait, to destinations that answer.
    pub fn is_failing(&self, destination: &str) -> bool {
        let failing = self.failing.lock();
        !failing.is_empty() && failing.contains(destination)
    }
}
