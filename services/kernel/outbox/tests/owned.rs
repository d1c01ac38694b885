//! Destinations that belong to one owner each: owners take turns, and those that answer do not wait for those that hang.

use super::*;

const OWNED: OutboxSettings = OutboxSettings {
    at_once: 4,
    turn_pages: 1,
    owned: Some(OwnedDestinations { at_once: 2, kept_for_answering: 2 }),
    ..OutboxSettings::new("test", RowKind::Payload, Retry::Row(&[Duration::from_secs(1)]))
};

/// One row for each of `count` destinations of an owner.
async fn put(fixture: &Fixture, owner: &str, count: usize) {
    let row = |n: usize| NewOutboxRow {
        owner: owner.to_owned(),
        ..fixture.row(&format!("{owner}{n:03}"), &format!("of {owner}{n:03}"))
    };
    fixture.put(&(0..count).map(row).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn the_first_destinations_of_each_owner_come_before_the_rest_of_one() {
    let fixture = Fixture::with(OWNED).await;
    put(&fixture, "mallory", 200).await;
    put(&fixture, "zoe", 3).await;
    let due = fixture.due().await;
    assert_eq!(due, ["mallory000", "zoe000", "mallory001", "zoe001"]);
}

/// Those of one owner hang, and so do those of others that never answered: who answered last time is sent to.
#[tokio::test]
async fn destinations_that_answer_do_not_wait_for_those_that_hang() {
    struct HangsForOthers(TestSender);
    impl OutboxSender for HangsForOthers {
        async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
            let hangs = !page.destination.starts_with("alice");
            let outcome = self.0.send(page).await?;
            if hangs { std::future::pending().await } else { Ok(outcome) }
        }
    }
    let fixture = Fixture::with(OWNED).await;
    put(&fixture, "alice", 1).await;
    fixture.outbox.send_to(&TestSender::default(), "alice000").await;
    for owner in ["eve", "mallory", "trudy"] {
        put(&fixture, owner, 40).await;
    }
    let sender = HangsForOthers(TestSender::default());
    let began = async |count: usize| {
        while sender.0.sent.lock().len() < count {
            tokio::task::yield_now().await;
        }
    };
    let test = async {
        began(2).await;
        let again = fixture.row("alice000", "second");
        fixture.put(&[NewOutboxRow { owner: "alice".to_owned(), ..again }]).await;
        began(3).await;
    };
    tokio::select! {
        () = fixture.outbox.run(&sender) => panic!("it runs until it is dropped"),
        () = test => {}
    }
    let mut sent = sender.0.keys();
    // Those that hang are sent to at once.
    sent[..2].sort_unstable();
    assert_eq!(sent, ["of eve000", "of mallory000", "second"], "two that hang, and one that answers");
}

#[tokio::test]
async fn what_failed_last_time_has_not_answered_and_what_is_postponed_counts_as_nothing() {
    let fixture = Fixture::with(OWNED).await;
    let answered = async || {
        let due = fixture.outbox.due_destinations().await.unwrap();
        due.iter().map(|due| due.answered).collect::<Vec<_>>()
    };
    fixture.add("a", &["m1", "m2", "m3", "m4"]).await;
    assert_eq!(answered().await, [0]);
    fixture.outbox.send_to(&TestSender::default(), "a").await;
    assert_eq!(answered().await, [1]);
    fixture.outbox.send_to(&TestSender::answering([TestOutcome::Postpones]), "a").await;
    assert!(fixture.due().await.is_empty());
    fixture.pass(1000);
    assert_eq!((answered().await, fixture.state("a").await.attempts), (vec![1], 0));
    fixture.outbox.send_to(&TestSender::answering([TestOutcome::Fails("away")]), "a").await;
    fixture.pass(1000);
    assert_eq!((answered().await, fixture.state("a").await.attempts), (vec![0], 1));
    fixture.outbox.send_to(&TestSender::answering([TestOutcome::Postpones]), "a").await;
    fixture.pass(1000);
    let state = fixture.state("a").await;
    assert_eq!(
        (state.attempts, state.last_error.as_deref()),
        (1, Some("away")),
        "the row keeps its attempts"
    );
    fixture.outbox.send_to(&TestSender::answering([TestOutcome::Fails("away")]), "a").await;
    assert_eq!(answered().await, [0], "the row was given up");
}
