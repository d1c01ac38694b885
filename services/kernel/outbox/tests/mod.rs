//! The outbox on its own: a table of each kind, and senders that do as a test wants.

mod limits;
mod marks;
mod order;
mod owned;
mod owners;
mod retries;
mod withdraw;

use super::*;
use crate::store::test_tables::TestTables;
use crate::{BackoffSchedule, StoreUrl};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

const NOW: i64 = 1_794_701_761_000;
const SCHEDULE: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(1), Duration::from_secs(10));
const DESTINATION: Retry = Retry::Destination { schedule: SCHEDULE, demand: None };

const TABLES: &str = "
    CREATE TABLE test_outbox (
        key TEXT NOT NULL, destination TEXT NOT NULL, position BIGINT NOT NULL, owner TEXT NOT NULL, bytes BIGINT NOT NULL,
        created_at BIGINT NOT NULL, expires_at BIGINT, tried_at BIGINT, version BIGINT NOT NULL, progress TEXT,
        subject TEXT, data TEXT NOT NULL, PRIMARY KEY (key, destination));
    CREATE INDEX test_outbox_order ON test_outbox (destination, position, key, bytes);
    CREATE INDEX test_outbox_turns ON test_outbox (destination, owner, position, key, bytes);
    CREATE INDEX test_outbox_expiry ON test_outbox (destination, expires_at) WHERE expires_at IS NOT NULL;
    CREATE INDEX test_outbox_subject ON test_outbox (destination, subject) WHERE subject IS NOT NULL;
    CREATE INDEX test_outbox_owner ON test_outbox (owner, position, key, destination);
    CREATE TABLE test_destination (
        destination TEXT PRIMARY KEY, waiting BIGINT NOT NULL DEFAULT 0, bytes BIGINT NOT NULL DEFAULT 0,
        fence BIGINT NOT NULL DEFAULT 0, leased_until BIGINT NOT NULL DEFAULT 0, sending BIGINT NOT NULL DEFAULT 0,
        attempts BIGINT NOT NULL DEFAULT 0, next_try BIGINT NOT NULL DEFAULT 0, last_error TEXT,
        delivered BIGINT NOT NULL DEFAULT 0, refused BIGINT NOT NULL DEFAULT 0, expired BIGINT NOT NULL DEFAULT 0,
        last_owner TEXT NOT NULL DEFAULT '', answered BIGINT NOT NULL DEFAULT 0);
    CREATE TABLE test_ended (
        key TEXT PRIMARY KEY, destination TEXT NOT NULL, owner TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT,
        attempts BIGINT NOT NULL, created_at BIGINT NOT NULL, ended_at BIGINT NOT NULL, data TEXT NOT NULL)";

struct Fixture {
    tables: TestTables,
    world: World,
    settings: OutboxSettings,
    outbox: Arc<Outbox>,
}

impl Fixture {
    async fn open(kind: RowKind, retry: Retry) -> Fixture {
        Fixture::with(OutboxSettings { page_rows: 10, ..OutboxSettings::new("test", kind, retry) }).await
    }

    async fn with(settings: OutboxSettings) -> Fixture {
        let tables = TestTables::open(TABLES).await;
        let mut world = World::local("aid.pub", Path::new(""), StoreUrl::Sqlite("".into()));
        world.clock = Clock::manual(NOW);
        let outbox = Outbox::open(&world, &tables.db, settings.clone()).await.unwrap();
        Fixture { tables, world, settings, outbox }
    }

    /// Another process with the same store.
    async fn process(&self) -> Arc<Outbox> {
        let db = &self.tables.db;
        // As it is where there are several: an outbox that is opened on SQLite ends what is left over.
        let held: Vec<(String, i64)> =
            sqlx::query_as("SELECT destination, leased_until FROM test_destination")
                .fetch_all(db.read())
                .await
                .unwrap();
        let opened = Outbox::open(&self.world, db, self.settings.clone()).await.unwrap();
        for (destination, until) in held {
            sqlx::query("UPDATE test_destination SET leased_until = $2 WHERE destination = $1")
                .bind(destination)
                .bind(until)
                .execute(db.write_alone())
                .await
                .unwrap();
        }
        opened
    }

    fn row(&self, destination: &str, key: &str) -> NewOutboxRow {
        let now = self.world.clock.now_ms();
        NewOutboxRow {
            key: key.to_owned(),
            destination: destination.to_owned(),
            position: self.outbox.next_position(now),
            owner: "alice.aid.pub".to_owned(),
            created_at: now,
            expires_at: None,
            tried_at: None,
            data: format!("data of {key}"),
        }
    }

    async fn put(&self, rows: &[NewOutboxRow]) -> Vec<bool> {
        let mut tx = self.tables.db.write().await.unwrap();
        let new = self.outbox.add(&mut tx, rows).await.unwrap();
        tx.commit().await.unwrap();
        new
    }

    async fn add(&self, destination: &str, keys: &[&str]) {
        let rows: Vec<NewOutboxRow> = keys.iter().map(|key| self.row(destination, key)).collect();
        self.put(&rows).await;
    }

    async fn state(&self, destination: &str) -> DestinationState {
        let states = self.outbox.destinations(10).await.unwrap();
        states.into_iter().find(|state| state.destination == destination).unwrap()
    }

    async fn due(&self) -> Vec<String> {
        self.outbox.due().await.unwrap()
    }

    fn pass(&self, ms: i64) {
        self.world.clock.advance_ms(ms);
    }
}

/// Records the keys of each page with its destination, and answers as it was told to; what it was not told about is delivered.
#[derive(Default)]
struct TestSender {
    sent: Mutex<Vec<(String, Vec<String>)>>,
    answers: Mutex<VecDeque<TestOutcome>>,
    last_attempts: Mutex<Vec<bool>>,
}

enum TestOutcome {
    Fails(&'static str),
    /// The first row is refused.
    Refuses(&'static str),
    /// Nothing is tried for a second.
    Postpones,
    /// It may have arrived.
    Breaks,
    /// No answer comes.
    Hangs,
    /// The sender's own store does not answer.
    StoreFails,
}

impl TestSender {
    fn answering(answers: impl IntoIterator<Item = TestOutcome>) -> TestSender {
        TestSender { answers: Mutex::new(answers.into_iter().collect()), ..TestSender::default() }
    }

    fn sent(&self) -> Vec<(String, Vec<String>)> {
        std::mem::take(&mut self.sent.lock())
    }

    /// The keys of all pages, in order.
    fn keys(&self) -> Vec<String> {
        self.sent().into_iter().flat_map(|(_, keys)| keys).collect()
    }
}

impl OutboxSender for TestSender {
    async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
        let keys = page.rows.iter().map(|row| row.key.clone()).collect();
        self.sent.lock().push((page.destination.clone(), keys));
        self.last_attempts.lock().push(page.last_attempt);
        let all = || page.rows.iter().map(|row| row.settled(RowEnd::Delivered)).collect();
        let answer = self.answers.lock().pop_front();
        Ok(match answer {
            None => PageOutcome { settled: all(), ..PageOutcome::default() },
            Some(TestOutcome::Fails(error)) => PageOutcome::failed(error),
            Some(TestOutcome::Refuses(reason)) => {
                PageOutcome::settled(page.rows[0].settled(RowEnd::GivenUp(reason.to_owned())))
            }
            Some(TestOutcome::Postpones) => PageOutcome::postponed(Duration::from_secs(1)),
            Some(TestOutcome::Breaks) => {
                let failure = SendFailure {
                    error: "the link broke".to_owned(),
                    may_have_arrived: true,
                    retry_in: None,
                };
                PageOutcome { failure: Some(failure), ..PageOutcome::default() }
            }
            Some(TestOutcome::Hangs) => std::future::pending().await,
            Some(TestOutcome::StoreFails) => return Err(sqlx::Error::PoolTimedOut),
        })
    }
}

/// Sends until the sender does not answer any more, as a process that is killed then.
async fn killed_while_sending(outbox: &Outbox, destination: &str) -> TestSender {
    let sender = TestSender::answering([TestOutcome::Hangs]);
    let sent = async {
        while sender.sent.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = outbox.send_to(&sender, destination) => panic!("it hangs"),
        () = sent => {}
    }
    sender
}
