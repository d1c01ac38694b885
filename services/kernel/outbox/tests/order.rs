//! In order per destination, by one process at a time, and again if it is not known that it was sent.

use super::*;

#[tokio::test]
async fn each_destination_gets_its_rows_in_order_and_once() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    let names: Vec<String> = (0..25).map(|n| format!("m{n}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    fixture.add("b", &keys).await;
    fixture.add("a", &["x"]).await;
    fixture.add("b", &["last"]).await;
    assert_eq!(fixture.due().await, ["a", "b"]);
    let sender = TestSender::default();
    for destination in fixture.due().await {
        fixture.outbox.send_to(&sender, &destination).await;
    }
    let sent = sender.sent();
    let sizes: Vec<(&str, usize)> = sent.iter().map(|(to, keys)| (to.as_str(), keys.len())).collect();
    assert_eq!(sizes, [("a", 1), ("b", 10), ("b", 10), ("b", 6)]);
    let to_b: Vec<&String> = sent[1..].iter().flat_map(|(_, keys)| keys).collect();
    assert!(to_b[..25].iter().copied().eq(&names) && to_b[25] == "last");
    let state = fixture.state("b").await;
    assert_eq!((state.waiting, state.bytes, state.delivered, state.attempts), (0, 0, 26, 0));
    assert!(fixture.due().await.is_empty());
}

#[tokio::test]
async fn a_row_is_there_if_and_only_if_its_cause_is() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    let rows = [fixture.row("a", "m1"), fixture.row("a", "m1")];
    let mut tx = fixture.tables.db.write().await.unwrap();
    fixture.outbox.add(&mut tx, &rows[..1]).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(fixture.due().await.is_empty());
    assert_eq!(fixture.put(&rows[..1]).await, [true]);
    assert_eq!(fixture.put(&rows[1..]).await, [false], "it waits already");
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.bytes), (1, "data of m1".len() as i64 + 256));
}

#[tokio::test]
async fn a_page_has_few_rows_where_they_are_large() {
    let settings = OutboxSettings {
        page_rows: 10,
        page_bytes: 3000,
        ..OutboxSettings::new("test", RowKind::Payload, DESTINATION)
    };
    let fixture = Fixture::with(settings).await;
    let large = |key: &str| NewOutboxRow { data: "x".repeat(1200), ..fixture.row("a", key) };
    let rows: Vec<NewOutboxRow> = ["1", "2", "3", "4", "5"].map(large).into();
    fixture.put(&rows).await;
    fixture.put(&[NewOutboxRow { data: "x".repeat(9000), ..fixture.row("a", "6") }]).await;
    let sender = TestSender::default();
    fixture.outbox.send_to(&sender, "a").await;
    let sizes: Vec<usize> = sender.sent().iter().map(|(_, keys)| keys.len()).collect();
    assert_eq!(sizes, [2, 2, 1, 1]);
}

#[tokio::test]
async fn a_process_that_is_killed_before_it_marks_what_it_sent_has_it_sent_again_in_order() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    fixture.add("a", &["m1", "m2"]).await;
    let killed = killed_while_sending(&fixture.outbox, "a").await;
    fixture.add("a", &["m3"]).await;
    let next = fixture.process().await;
    let sender = TestSender::default();
    next.send_to(&sender, "a").await;
    assert!(sender.sent().is_empty() && next.due().await.unwrap().is_empty(), "the other one has the lease");
    fixture.pass(30_000);
    assert_eq!(next.due().await.unwrap(), ["a"]);
    next.send_to(&sender, "a").await;
    assert_eq!((killed.keys(), sender.keys()), (keys(&["m1", "m2"]), keys(&["m1", "m2", "m3"])));
}

#[tokio::test]
async fn a_holder_that_lost_its_lease_marks_nothing() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    let expiring = NewOutboxRow { expires_at: Some(NOW + 60_000), ..fixture.row("a", "m1") };
    fixture.put(&[expiring]).await;
    let (one, two) = (&fixture.outbox, fixture.process().await);
    let mut late = one.begin_turn("a").await.unwrap().unwrap();
    fixture.pass(30_000);
    two.send_to(&TestSender::answering([TestOutcome::Fails("away")]), "a").await;
    let settled = |end| PageOutcome {
        settled: vec![SettledRow { key: "m1".to_owned(), version: 0, end }],
        ..PageOutcome::default()
    };
    for outcome in
        [settled(RowEnd::Delivered), settled(RowEnd::Part("x".to_owned())), PageOutcome::failed("x")]
    {
        one.settle(&mut late, "m1", outcome, fixture.world.clock.now_ms()).await.unwrap();
    }
    fixture.pass(60_000);
    assert!(!one.expire(&late.lease, fixture.world.clock.now_ms()).await.unwrap());
    one.finish(&late).await.unwrap();
    let state = fixture.state("a").await;
    assert_eq!((state.waiting, state.delivered, state.expired, state.attempts), (1, 0, 0, 1));
    assert_eq!(state.last_error.as_deref(), Some("away"));
}

#[tokio::test]
async fn two_processes_with_one_store_send_each_row_once() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    for destination in ["a", "b", "c"] {
        let names: Vec<String> = (0..40).map(|n| format!("{destination}{n:02}")).collect();
        fixture.add(destination, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let (one, two) = (fixture.outbox.clone(), fixture.process().await);
    let sender = TestSender::default();
    let empty = async {
        while fixture.outbox.count().await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = one.run(&sender) => panic!("it runs until it is dropped"),
        () = two.run(&sender) => panic!("it runs until it is dropped"),
        () = empty => {}
    }
    let sent = sender.sent();
    for destination in ["a", "b", "c"] {
        let to_it = sent.iter().filter(|(to, _)| to == destination).flat_map(|(_, keys)| keys);
        let expected: Vec<String> = (0..40).map(|n| format!("{destination}{n:02}")).collect();
        assert!(to_it.eq(&expected), "{destination}: {sent:?}");
    }
}

#[tokio::test]
async fn a_destination_that_hangs_holds_up_nobody_else_and_turns_are_fair() {
    let settings = OutboxSettings {
        at_once: 2,
        turn_pages: 1,
        ..OutboxSettings::new("test", RowKind::Payload, DESTINATION)
    };
    let fixture = Fixture::with(settings).await;
    fixture.add("a", &["a1"]).await;
    fixture.add("b", &["b1", "b2"]).await;
    fixture.add("c", &["c1", "c2"]).await;
    /// Delivers to all but one, which does not answer.
    #[derive(Default)]
    struct HangsForOne(TestSender);
    impl OutboxSender for HangsForOne {
        async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
            if page.destination == "a" { std::future::pending().await } else { self.0.send(page).await }
        }
    }
    let sender = HangsForOne::default();
    let others_done = async {
        while fixture.outbox.count().await.unwrap() > 1 {
            fixture.pass(1);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = fixture.outbox.run(&sender) => panic!("it runs until it is dropped"),
        () = others_done => {}
    }
    assert_eq!(sender.0.keys(), keys(&["b1", "c1", "b2", "c2"]));
}

#[tokio::test]
async fn a_row_that_is_sent_in_parts_goes_on_where_it_was() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    fixture.add("a", &["m1", "m2"]).await;
    let progress = Mutex::new(Vec::new());
    struct Parts<'a>(&'a Mutex<Vec<Option<String>>>);
    impl OutboxSender for Parts<'_> {
        async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
            let row = &page.rows[0];
            self.0.lock().push(row.progress.clone());
            Ok(PageOutcome::settled(row.settled(match row.progress.as_deref() {
                None => RowEnd::Part("half".to_owned()),
                Some(_) => RowEnd::Delivered,
            })))
        }
    }
    fixture.outbox.send_to(&Parts(&progress), "a").await;
    let half = || Some("half".to_owned());
    assert_eq!(*progress.lock(), [None, half(), None, half()]);
    assert_eq!(fixture.state("a").await.delivered, 2);
}

#[tokio::test]
async fn a_process_that_stops_leaves_its_leases_to_others() {
    let fixture = Fixture::open(RowKind::Payload, DESTINATION).await;
    fixture.add("a", &["m1"]).await;
    let (one, two) = (&fixture.outbox, fixture.process().await);
    one.begin_turn("a").await.unwrap().unwrap();
    assert!(two.begin_turn("a").await.unwrap().is_none());
    one.leases.release_all().await;
    assert!(two.begin_turn("a").await.unwrap().is_some());
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}
