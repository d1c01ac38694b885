//! What fails is tried again later, and given up with a reason.

use super::*;
use proto_schemas::requests::federation::PeerUp;

const ROW: Retry = Retry::Row(&[Duration::from_secs(1), Duration::from_secs(5)]);

#[tokio::test]
async fn a_destination_that_fails_is_tried_later_and_later_until_it_answers() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    fixture.add("a", &["m1", "m2"]).await;
    fixture.add("b", &["m3"]).await;
    for (attempts, most) in [(1, 1000), (2, 2000), (3, 4000), (4, 8000), (5, 10_000), (6, 10_000)] {
        let sender = TestSender::answering([TestOutcome::Fails("away")]);
        fixture.outbox.send_to(&sender, "a").await;
        let state = fixture.state("a").await;
        let wait = state.next_try - fixture.world.clock.now_ms();
        assert_eq!((state.attempts, state.last_error.as_deref()), (attempts, Some("away")));
        assert!((most / 2..=most).contains(&wait), "{wait} of {most}");
        assert_eq!(fixture.due().await, ["b"], "nobody waits for another");
        fixture.pass(wait - 1);
        assert_eq!(fixture.due().await, ["b"]);
        fixture.pass(1);
        assert_eq!(fixture.due().await, ["b", "a"], "who waits longer comes first");
    }
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["m1", "m2"]);
    let state = fixture.state("a").await;
    assert_eq!((state.attempts, state.last_error, state.next_try), (0, None, 0));
}

#[tokio::test]
async fn a_row_that_is_added_has_a_destination_tried_sooner_where_that_is_wanted() {
    let demand = Some(Duration::from_secs(5));
    let fixture = Fixture::open(RowKind::Payload, Retry::Destination { schedule: SCHEDULE, demand }).await;
    fixture.add("a", &["m0"]).await;
    for _ in 0..8 {
        fixture.outbox.send_to(&TestSender::answering([TestOutcome::Fails("away")]), "a").await;
    }
    sqlx::query("UPDATE test_destination SET next_try = $1")
        .bind(NOW + 10_000)
        .execute(fixture.tables.db.write_alone())
        .await
        .unwrap();
    fixture.add("a", &["m1"]).await;
    assert_eq!(fixture.state("a").await.next_try, NOW + 5000);
    fixture.pass(1000);
    fixture.add("a", &["m2"]).await;
    assert_eq!(fixture.state("a").await.next_try, NOW + 5000, "never later");
}

#[tokio::test]
async fn a_domain_to_which_a_link_was_proved_is_tried_at_once() {
    let settings =
        OutboxSettings { to_peers: true, ..OutboxSettings::new("test", RowKind::Payload, DESTINATION) };
    let fixture = Fixture::with(settings).await;
    fixture.add("b.example", &["m1"]).await;
    let sender = TestSender::answering([TestOutcome::Fails("away")]);
    let test = async {
        while fixture.state("b.example").await.attempts != 1 {
            tokio::task::yield_now().await;
        }
        // The clock stands still: without this event there would be no further try.
        fixture.world.bus.signal(&PeerUp { issuer: "b.example".to_owned() });
        while fixture.outbox.count().await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = test => {}
        () = fixture.outbox.run(&sender) => panic!("it runs until it is dropped"),
    }
}

#[tokio::test]
async fn a_row_that_is_refused_is_given_up_with_its_reason_and_the_rest_is_sent() {
    let settings = OutboxSettings {
        page_rows: 10,
        kept_ended: 2,
        ..OutboxSettings::new("test", RowKind::Payload, DESTINATION)
    };
    let fixture = Fixture::with(settings).await;
    fixture.add("a", &["m1", "m2", "m3"]).await;
    let sender = TestSender::answering([TestOutcome::Refuses("nobody of that name")]);
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["m1", "m2", "m3", "m2", "m3"]);
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.delivered, state.refused), (0, 2, 1));
    let entries = fixture.outbox.entries("a", "", "z", 10).await.unwrap();
    let shown: Vec<(&str, &str)> =
        entries.iter().map(|entry| (entry.key.as_str(), entry.outcome.as_str())).collect();
    assert_eq!(shown, [("m3", "delivered"), ("m2", "delivered")], "the last two are kept");
}

#[tokio::test]
async fn a_row_is_given_up_after_its_last_attempt_and_the_next_one_begins_anew() {
    let settings = OutboxSettings { kept_ended: 10, ..OutboxSettings::new("test", RowKind::Payload, ROW) };
    let fixture = Fixture::with(settings).await;
    fixture.add("a", &["m1", "m2"]).await;
    let sender = TestSender::answering(["one", "two", "three", "four"].map(TestOutcome::Fails));
    fixture.outbox.send_to(&sender, "a").await;
    let entries = fixture.outbox.entries("a", "waiting", "z", 10).await.unwrap();
    let shown: Vec<(&str, i64, Option<&str>, i64)> = entries
        .iter()
        .map(|entry| (entry.key.as_str(), entry.attempts, entry.reason.as_deref(), entry.next_try - NOW))
        .collect();
    assert_eq!(shown, [("m2", 0, None, 0), ("m1", 1, Some("one"), 1000)]);
    fixture.pass(1000);
    fixture.outbox.send_to(&sender, "a").await;
    assert!(fixture.due().await.is_empty());
    fixture.pass(5000);
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["m1", "m1", "m1", "m2"], "the next one follows at once");
    assert_eq!(*sender.last_attempts.lock(), [false, false, true, false]);
    fixture.pass(1000);
    fixture.outbox.send_to(&sender, "a").await;
    let ended = fixture.outbox.entries("a", "", "z", 10).await.unwrap();
    let shown: Vec<(&str, &str, i64, Option<&str>)> = ended
        .iter()
        .map(|entry| (&*entry.key, &*entry.outcome, entry.attempts, entry.reason.as_deref()))
        .collect();
    assert_eq!(shown, [("m2", "delivered", 2, None), ("m1", "given_up", 3, Some("three"))]);
}

#[tokio::test]
async fn where_too_many_wait_the_oldest_is_given_up_and_its_attempts_with_it() {
    let settings = OutboxSettings {
        kept_ended: 10,
        most_waiting: Some(2),
        ..OutboxSettings::new("test", RowKind::Payload, ROW)
    };
    let fixture = Fixture::with(settings).await;
    fixture.add("a", &["m1", "m2"]).await;
    fixture.outbox.send_to(&TestSender::answering([TestOutcome::Fails("away")]), "a").await;
    assert!(fixture.due().await.is_empty());
    let mut late = {
        fixture.pass(1000);
        fixture.outbox.begin_turn("a").await.unwrap().unwrap()
    };
    fixture.add("a", &["m3"]).await;
    // The first row was being sent, and that failed: this is not the attempt of the next one.
    let failed = PageOutcome::failed("away");
    late.attempts = 0;
    fixture.outbox.settle(&mut late, "m1", failed, fixture.world.clock.now_ms()).await.unwrap();
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.refused, state.attempts), (2, 1, 0));
    assert_eq!(fixture.due().await, ["a"]);
    let ended = fixture.outbox.entries("a", "given_up", "z", 10).await.unwrap();
    assert_eq!((&*ended[0].key, ended[0].attempts), ("m1", 1));
    assert_eq!(ended[0].reason.as_deref(), Some("replaced: too many newer ones are waiting"));
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["m2", "m3"]);
}

#[tokio::test]
async fn what_waits_too_long_expires() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    let until = |key: &str, at: i64| NewOutboxRow { expires_at: Some(NOW + at), ..fixture.row("a", key) };
    fixture.put(&[until("m1", 5000), until("m2", 6000), fixture.row("a", "m3")]).await;
    assert_eq!(fixture.outbox.expires_at("m1").await.unwrap(), Some(NOW + 5000));
    fixture.pass(5000);
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    assert_eq!(sender.keys(), ["m2", "m3"]);
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.bytes, state.expired, state.delivered), (0, 0, 1, 2));
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_no_failure_of_the_destination() {
    let fixture = Fixture::open(RowKind::Payload, ROW).await;
    fixture.add("a", &["m1"]).await;
    for _ in 0..5 {
        fixture.outbox.send_to(&TestSender::answering([TestOutcome::StoreFails]), "a").await;
        assert!(fixture.due().await.is_empty(), "the lease runs out first");
        fixture.pass(30_000);
    }
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.attempts, state.refused), (1, 0, 0));
    assert_eq!(fixture.due().await, ["a"]);
}
