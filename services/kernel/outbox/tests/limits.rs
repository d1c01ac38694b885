//! What is not kept: rows that newer ones replace, and the oldest of an owner with too many.

use super::*;

const WAITS: &[Duration] = &[Duration::from_secs(1)];

/// Rows are about the part of their data before a colon.
const ABOUT: OutboxSettings = OutboxSettings {
    subject: Some(|data| data.split_once(':').map(|(subject, _)| subject.to_owned())),
    ..OutboxSettings::new("test", RowKind::Payload, DESTINATION)
};

fn about(fixture: &Fixture, destination: &str, key: &str, data: &str) -> NewOutboxRow {
    NewOutboxRow { data: data.to_owned(), ..fixture.row(destination, key) }
}

#[tokio::test]
async fn a_row_replaces_an_older_one_about_the_same_in_the_transaction_that_adds_it() {
    let fixture = Fixture::with(ABOUT).await;
    fixture.put(&[about(&fixture, "a", "m1", "x:1"), about(&fixture, "a", "m2", "y:1")]).await;
    fixture.put(&[about(&fixture, "b", "m3", "x:1"), about(&fixture, "a", "m4", "nothing")]).await;
    let newer = about(&fixture, "a", "m5", "x:2");
    let mut tx = fixture.tables.db.write().await.unwrap();
    fixture.outbox.add(&mut tx, std::slice::from_ref(&newer)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(fixture.state("a").await.waiting, 3, "it waits as long as there is no newer one");
    fixture.put(&[newer]).await;
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.bytes, state.refused), (3, 3 + 3 + 7 + 3 * 256, 0));
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["m2", "m4", "m5"]);
    assert_eq!(fixture.state("b").await.waiting, 1, "another destination has yet to learn of it");
}

#[tokio::test]
async fn a_row_that_is_replaced_while_it_is_sent_is_followed_by_the_newer_one() {
    let fixture = Fixture::with(ABOUT).await;
    fixture.put(&[about(&fixture, "a", "m1", "x:1")]).await;
    let mut turn = fixture.outbox.begin_turn("a").await.unwrap().unwrap();
    struct AddsNewer<'a>(&'a Fixture, TestSender);
    impl OutboxSender for AddsNewer<'_> {
        async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
            self.0.put(&[about(self.0, "a", "m2", "x:2")]).await;
            self.1.send(page).await
        }
    }
    let sender = AddsNewer(&fixture, TestSender::default());
    fixture.outbox.send_page(&sender, &mut turn).await.unwrap();
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.delivered), (1, 0));
    fixture.outbox.send_page(&sender.1, &mut turn).await.unwrap();
    assert_eq!(
        (sender.1.keys(), fixture.state("a").await.waiting),
        (vec!["m1".to_owned(), "m2".to_owned()], 0)
    );
}

#[tokio::test]
async fn the_oldest_rows_of_an_owner_with_too_many_are_given_up_with_a_reason_and_nobody_elses() {
    let owned = Some(OwnedDestinations { at_once: 1, kept_for_answering: 0 });
    let settings = OutboxSettings {
        owned,
        most_of_owner: Some(3),
        kept_ended: 10,
        ..OutboxSettings::new("test", RowKind::Payload, Retry::Row(WAITS))
    };
    let fixture = Fixture::with(settings).await;
    let of = |owner: &str, destination: &str, key: &str| NewOutboxRow {
        owner: owner.to_owned(),
        ..fixture.row(destination, key)
    };
    fixture.put(&[of("bob", "b1", "bob1")]).await;
    fixture.put(&[of("mallory", "m1", "k1"), of("mallory", "m1", "k2"), of("mallory", "m2", "k3")]).await;
    fixture.outbox.send_to(&TestSender::answering([TestOutcome::Fails("away")]), "m1").await;
    fixture.put(&[of("mallory", "m2", "k4")]).await;
    let given_up = fixture.outbox.entries("m1", "given_up", "z", 10).await.unwrap();
    let shown: Vec<_> =
        given_up.iter().map(|row| (&*row.key, row.attempts, row.reason.as_deref().unwrap())).collect();
    assert_eq!(shown, [("k1", 1, "replaced: too many newer ones of its owner are waiting")]);
    let (first, other) = (fixture.state("m1").await, fixture.state("b1").await);
    assert_eq!((first.waiting, first.refused, first.attempts, first.next_try), (1, 1, 0, 0));
    assert_eq!((other.waiting, fixture.outbox.count().await.unwrap()), (1, 4));
}

#[tokio::test]
async fn an_owner_may_have_so_many_rows_for_each_destination_that_it_shares_with_others() {
    let settings = OutboxSettings {
        most_of_owner: Some(2),
        ..OutboxSettings::new("test", RowKind::Payload, DESTINATION)
    };
    let fixture = Fixture::with(settings).await;
    fixture.add("a", &["m1", "m2", "m3"]).await;
    fixture.add("b", &["m4", "m5"]).await;
    fixture.put(&[NewOutboxRow { owner: "bob".to_owned(), ..fixture.row("a", "m6") }]).await;
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["m2", "m6", "m3"]);
    assert_eq!((fixture.state("a").await.refused, fixture.state("b").await.waiting), (1, 2));
}
