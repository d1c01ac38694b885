//! Owners whose rows wait for one destination take turns.

use super::*;
use crate::Engine;
use crate::outbox::owners::{WaitingRow, by_turns};
use proptest::test_runner::{Config, TestRunner};
use sqlx::AssertSqlSafe;
use std::collections::BTreeMap;

fn of(fixture: &Fixture, owner: &str, destination: &str, key: &str) -> NewOutboxRow {
    NewOutboxRow { owner: owner.to_owned(), ..fixture.row(destination, key) }
}

/// `count` rows of an owner, whose keys begin with its name.
fn many(fixture: &Fixture, owner: &str, count: usize) -> Vec<NewOutboxRow> {
    (0..count).map(|n| of(fixture, owner, "a", &format!("{owner}{n:04}"))).collect()
}

async fn one_row_per_page() -> Fixture {
    Fixture::with(OutboxSettings::new("test", RowKind::Payload, DESTINATION)).await
}

#[tokio::test]
async fn thousands_of_rows_of_one_owner_delay_the_row_of_another_by_one_turn() {
    let fixture = one_row_per_page().await;
    fixture.put(&many(&fixture, "mallory", 2000)).await;
    fixture.put(&many(&fixture, "alice", 2)).await;
    fixture.put(&many(&fixture, "zoe", 1)).await;
    let sender = TestSender::default();
    let mut turn = fixture.outbox.begin_turn("a").await.unwrap().unwrap();
    for _ in 0..6 {
        fixture.outbox.send_page(&sender, &mut turn).await.unwrap();
    }
    assert_eq!(
        sender.keys(),
        ["alice0000", "mallory0000", "zoe0000", "alice0001", "mallory0001", "mallory0002"]
    );
}

#[tokio::test]
async fn a_page_has_as_many_rows_of_each_owner_and_sends_them_in_their_order() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    fixture.put(&many(&fixture, "mallory", 100)).await;
    fixture.put(&many(&fixture, "alice", 4)).await;
    fixture.put(&many(&fixture, "zoe", 1)).await;
    let sender = TestSender::default();
    let mut turn = fixture.outbox.begin_turn("a").await.unwrap().unwrap();
    fixture.outbox.send_page(&sender, &mut turn).await.unwrap();
    let first = sender.keys();
    let count = |owner: &str| first.iter().filter(|key| key.starts_with(owner)).count();
    assert_eq!((count("mallory"), count("alice"), count("zoe")), (4, 4, 1), "{first:?}");
    assert!(first[..4].iter().eq(&["mallory0000", "mallory0001", "mallory0002", "mallory0003"]));
}

#[tokio::test]
async fn the_next_turn_begins_where_the_last_one_ended_also_in_another_process() {
    let settings =
        OutboxSettings { turn_pages: 1, ..OutboxSettings::new("test", RowKind::Payload, DESTINATION) };
    let fixture = Fixture::with(settings).await;
    for owner in ["alice", "bob", "carol"] {
        fixture.put(&many(&fixture, owner, 2)).await;
    }
    let (one, two) = (fixture.outbox.clone(), fixture.process().await);
    let sender = TestSender::default();
    for _ in 0..3 {
        one.send_to(&sender, "a").await;
        two.send_to(&sender, "a").await;
    }
    assert_eq!(sender.keys(), ["alice0000", "bob0000", "carol0000", "alice0001", "bob0001", "carol0001"]);
}

#[tokio::test]
async fn rows_of_the_flood_that_were_not_sent_can_be_taken_back_after_a_link_broke() {
    let settings = OutboxSettings {
        page_rows: 2,
        withdrawable: true,
        ..OutboxSettings::new("test", RowKind::Payload, DESTINATION)
    };
    let fixture = Fixture::with(settings).await;
    fixture.put(&many(&fixture, "mallory", 5)).await;
    fixture.put(&many(&fixture, "alice", 1)).await;
    fixture.outbox.send_to(&TestSender::answering([TestOutcome::Breaks]), "a").await;
    let keys = ["mallory0000", "mallory0001", "alice0000"].map(str::to_owned);
    let taken = fixture.outbox.withdraw(&keys, true).await.unwrap();
    assert_eq!(taken.withdrawn.into_iter().collect::<Vec<_>>(), ["mallory0001"]);
}

/// Any backlog of any owners, in pages of any size: everything is sent once, each owner's rows in order, and an owner whose rows wait
/// has one in every page, or in every lap of pages where there are more owners than rows in a page.
#[test]
fn each_owner_is_served_in_order_and_within_one_lap() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let backlog = proptest::collection::vec((0..5_usize, 1..40_usize), 1..8);
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(&(backlog, 1..6_usize), |(backlog, page_rows)| {
        runtime.block_on(check_turns(&backlog, page_rows));
        Ok(())
    });
    checked.unwrap();
}

async fn check_turns(backlog: &[(usize, usize)], page_rows: usize) {
    let settings = OutboxSettings { page_rows, ..OutboxSettings::new("test", RowKind::Payload, DESTINATION) };
    let fixture = Fixture::with(settings).await;
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (batch, (owner, count)) in backlog.iter().enumerate() {
        let owner = format!("owner{owner}");
        let keys: Vec<String> = (0..*count).map(|n| format!("{owner}-{batch}-{n:03}")).collect();
        let rows: Vec<NewOutboxRow> = keys.iter().map(|key| of(&fixture, &owner, "a", key)).collect();
        fixture.put(&rows).await;
        expected.entry(owner).or_default().extend(keys);
    }
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    let pages: Vec<Vec<String>> = sender.sent().into_iter().map(|(_, keys)| keys).collect();
    let lap = expected.len().div_ceil(page_rows);
    for (owner, keys) in &expected {
        let of_owner = |key: &&String| key.split('-').next() == Some(owner.as_str());
        let sent: Vec<&String> = pages.iter().flatten().filter(of_owner).collect();
        assert!(sent.iter().copied().eq(keys), "{owner}: {sent:?}");
        let last = pages.iter().rposition(|page| page.iter().any(|key| of_owner(&key))).unwrap();
        for pages in pages[..=last].windows(lap) {
            assert!(
                pages.iter().flatten().any(|key| of_owner(&key)),
                "{owner} waits longer than {lap} pages"
            );
        }
    }
}

/// On SQLite, whose plans do not depend on what the tables hold.
#[tokio::test]
async fn no_statement_of_a_page_reads_all_that_waits() {
    let fixture = one_row_per_page().await;
    if fixture.tables.db.engine() != Engine::Sqlite {
        return;
    }
    let outbox = &fixture.outbox;
    for (statement, searches) in [
        (outbox.owners_statement(), &["test_outbox_turns (destination=? AND owner"; 4][..]),
        (
            outbox.first_rows_statement(),
            &["(rowid=?)", "test_outbox_turns (destination=? AND owner=? AND position<?)"],
        ),
        (outbox.remove_statement(), &["(key=?)"]),
        (outbox.replace_statement(), &["test_outbox_subject (destination=? AND subject=?)"]),
    ] {
        let statement = (1..=4).fold(statement, |text, number| text.replace(&format!("${number}"), "'1'"));
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")))
                .fetch_all(fixture.tables.db.read())
                .await
                .unwrap();
        let steps: Vec<&str> = plan.iter().map(|(.., step)| step.as_str()).collect();
        let found: Vec<&&str> = steps.iter().filter(|step| step.starts_with("SEARCH")).collect();
        assert_eq!(found.len(), searches.len(), "{steps:?}");
        assert!(found.iter().zip(searches).all(|(step, search)| step.contains(search)), "{steps:?}");
        assert!(
            !steps.iter().any(|step| step.contains("SCAN waits") || step.contains("SCAN test_")),
            "{steps:?}"
        );
    }
}

#[test]
fn large_rows_of_one_owner_leave_space_for_the_first_of_another() {
    let row = |owner: &str, position: i64, bytes: i64| WaitingRow {
        owner: owner.to_owned(),
        key: format!("{owner}{position}"),
        position,
        bytes,
    };
    let owners = ["alice", "mallory"].map(str::to_owned);
    let rows = vec![row("mallory", 1, 900), row("mallory", 2, 900), row("alice", 3, 90), row("alice", 4, 90)];
    let keys = |most, bytes| -> Vec<String> {
        by_turns(&owners, rows.clone(), most, bytes).into_iter().map(|row| row.key).collect()
    };
    assert_eq!(keys(10, 1000), ["alice3", "mallory1"]);
    assert_eq!(keys(10, 1100), ["alice3", "mallory1", "alice4"]);
    assert_eq!(keys(10, 10), ["alice3"], "one always fits");
    assert_eq!(keys(3, i64::MAX), ["alice3", "mallory1", "alice4"]);
}
