//! What waits can be taken back, unless it is being sent or may have arrived.

use super::*;

async fn fixture() -> Fixture {
    let settings = OutboxSettings {
        page_rows: 2,
        withdrawable: true,
        ..OutboxSettings::new("test", RowKind::Payload, DESTINATION)
    };
    Fixture::with(settings).await
}

async fn withdraw(outbox: &Outbox, keys: &[&str], untried: bool) -> (Vec<String>, Vec<String>) {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let OutboxWithdrawal { withdrawn, waiting } = outbox.withdraw(&keys, untried).await.unwrap();
    let mut withdrawn: Vec<String> = withdrawn.into_iter().collect();
    withdrawn.sort();
    (withdrawn, waiting.into_keys().collect())
}

fn texts(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[tokio::test]
async fn what_is_being_sent_is_not_taken_back() {
    let fixture = fixture().await;
    fixture.add("a", &["m1", "m2", "m3"]).await;
    fixture.add("b", &["m4"]).await;
    killed_while_sending(&fixture.outbox, "a").await;
    let taken = withdraw(&fixture.outbox, &["m1", "m3", "m4", "none"], false).await;
    assert_eq!(taken, (texts(&["m3", "m4"]), texts(&["m1"])));
    assert_eq!((fixture.state("a").await.waiting, fixture.state("b").await.bytes), (2, 0));
}

#[tokio::test]
async fn what_may_have_arrived_is_taken_back_only_by_who_knows_that_it_did_not() {
    let fixture = fixture().await;
    fixture.add("a", &["m1", "m2", "m3"]).await;
    fixture.outbox.send_to(&TestSender::answering([TestAnswer::Breaks]), "a").await;
    assert_eq!(withdraw(&fixture.outbox, &["m1", "m3"], true).await, (texts(&["m3"]), texts(&["m1"])));
    assert_eq!(withdraw(&fixture.outbox, &["m1"], false).await, (texts(&["m1"]), texts(&[])));
    let tried = NewOutboxRow { tried_at: Some(NOW), ..fixture.row("a", "m4") };
    fixture.put(&[tried]).await;
    assert_eq!(withdraw(&fixture.outbox, &["m4"], true).await, (texts(&[]), texts(&["m4"])));
}

#[tokio::test]
async fn what_was_being_sent_when_its_process_died_may_have_arrived() {
    let fixture = fixture().await;
    fixture.add("a", &["m1", "m2", "m3"]).await;
    killed_while_sending(&fixture.outbox, "a").await;
    fixture.pass(30_000);
    let next = fixture.process().await;
    next.send_to(&TestSender::answering([TestAnswer::Fails("away")]), "a").await;
    let taken = withdraw(&next, &["m1", "m2", "m3"], true).await;
    assert_eq!(taken, (texts(&["m3"]), texts(&["m1", "m2"])), "a failure says nothing about the try before");
}
