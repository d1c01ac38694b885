//! Marks fold, are sent when their time has come, and stay if there was another change meanwhile.

use super::*;
use sqlx::AssertSqlSafe;

impl Fixture {
    /// Marks `key` for a destination, due two seconds from now.
    async fn mark(&self, destination: &str, key: &str, version: i64) {
        let now = self.world.clock.now_ms();
        let mark = NewMark::new(key, destination, "alice.aid.pub", version, (now, now + 2000));
        let mut tx = self.tables.db.write().await.unwrap();
        sqlx::query(AssertSqlSafe(self.outbox.mark_statement(1)))
            .bind(self.outbox.mark_list(&[mark]).unwrap())
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn a_thousand_changes_are_one_row_that_is_sent_when_its_time_has_come() {
    let fixture = Fixture::open(RowKind::Mark, DESTINATION).await;
    fixture.mark("b", "other", 1).await;
    for version in 1..=1000 {
        fixture.mark("a", "task", version).await;
    }
    assert_eq!(fixture.outbox.count().await.unwrap(), 2);
    assert!(fixture.due().await.is_empty());
    fixture.pass(1999);
    assert!(fixture.due().await.is_empty());
    fixture.pass(1);
    assert_eq!(fixture.due().await, ["a", "b"]);
    let rows = fixture.outbox.marks("a", 10).await.unwrap();
    assert_eq!((rows.len(), rows[0].version, rows[0].key.as_str()), (1, 1000, "task"));
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["task"]);
    assert_eq!(fixture.due().await, ["b"]);
}

#[tokio::test]
async fn a_destination_for_which_nothing_waits_is_forgotten_after_an_hour() {
    let fixture = Fixture::open(RowKind::Mark, DESTINATION).await;
    fixture.mark("waits", "task", 1).await;
    for destination in ["waits", "gone", "recent"] {
        if destination == "recent" {
            fixture.pass(3_600_000);
        }
        fixture.outbox.count_failure(destination, "away").await.unwrap();
    }
    let known = async || {
        fixture.outbox.forget_destinations().await.unwrap();
        let states = fixture.outbox.destinations(10).await.unwrap();
        let mut names: Vec<String> = states.into_iter().map(|state| state.destination).collect();
        names.sort();
        names
    };
    assert_eq!(
        known().await,
        ["gone", "recent", "waits"],
        "the wait of `gone` is over for less than an hour"
    );
    fixture.pass(3_599_000);
    assert_eq!(known().await, ["gone", "recent", "waits"], "it looks once an hour");
    fixture.pass(1000);
    assert_eq!(known().await, ["recent", "waits"]);
    assert!(fixture.outbox.is_failing("recent"));
}

#[tokio::test]
async fn marks_are_sent_in_the_order_in_which_they_are_due() {
    let fixture = Fixture::open(RowKind::Mark, DESTINATION).await;
    for (key, version) in [("z", 1), ("y", 1), ("x", 1), ("z", 2)] {
        fixture.mark("a", key, version).await;
        fixture.pass(10);
    }
    fixture.pass(2000);
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["y", "x", "z"], "what changed again moved back");
}

#[tokio::test]
async fn a_mark_that_moved_on_while_it_was_sent_stays() {
    let fixture = Fixture::open(RowKind::Mark, DESTINATION).await;
    fixture.mark("a", "task", 1).await;
    fixture.mark("a", "other", 1).await;
    fixture.mark("a", "task", 2).await;
    fixture.outbox.remove_marks("a", [("task", 1), ("other", 1)].into_iter()).await.unwrap();
    let left = fixture.outbox.marks("a", 10).await.unwrap();
    assert_eq!((left.len(), left[0].version), (1, 2));
    let mut tx = fixture.tables.db.write().await.unwrap();
    fixture.outbox.remove_keys(&mut tx, &["task".to_owned()]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fixture.outbox.count().await.unwrap(), 0);
}

#[tokio::test]
async fn a_destination_that_could_not_be_told_at_once_is_known_to_fail_until_it_was_told() {
    let settings = OutboxSettings {
        to_peers: true,
        page_rows: 10,
        ..OutboxSettings::new("test", RowKind::Mark, DESTINATION)
    };
    let fixture = Fixture::with(settings).await;
    let other = fixture.process().await;
    fixture.mark("a", "task", 1).await;
    fixture.outbox.count_failure("a", "away").await.unwrap();
    assert!(fixture.outbox.is_failing("a") && !other.is_failing("a"));
    other.refresh_failing().await.unwrap();
    assert!(other.is_failing("a"), "other processes learn of it");
    let state = fixture.state("a").await;
    assert_eq!((state.attempts, state.last_error.as_deref()), (1, Some("away")));
    fixture.pass(2000);
    let sender = TestSender::answering([TestOutcome::Fails("away")]);
    other.send_to(&sender, "a").await;
    assert_eq!(fixture.state("a").await.attempts, 2, "it was the second failure in a row");
    other.send_to(&sender, "a").await;
    assert!(!other.is_failing("a"));
    fixture.outbox.refresh_failing().await.unwrap();
    assert!(!fixture.outbox.is_failing("a"));
}
