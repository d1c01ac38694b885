//! The accounts of messages are counted beside the commit: exact within seconds of sending, and after a crash wrong by those seconds at most.

use super::{BUSY, message, two};
use crate::support::{TestServer, until};

/// How many messages are sent at once.
const BURST: usize = 100;

/// How many rows the table has for what an agent sent.
fn counted(server: &TestServer, aid: &str) -> usize {
    let sum = format!(
        "SELECT CAST(COALESCE(SUM(kept_rows), 0) AS BIGINT) FROM stored_bytes WHERE kind = 'sender' AND aid = '{aid}'"
    );
    server.read_store("message", &sum).parse().expect("a number")
}

#[tokio::test]
async fn accounts_of_messages_equal_what_was_sent_but_for_the_last_seconds_before_a_kill() {
    let mut server = TestServer::with_two("message", BUSY).await;
    let (mut alice, bob) = two(&server).await;
    let burst = vec![message(bob.aid(), "hello"); BURST];
    for _ in 0..2 {
        let before = counted(&server, alice.aid());
        for sent in alice.call_many("message.send", &burst).await {
            sent.expect("a message is accepted");
        }
        until("everything that was sent is counted", async || {
            (counted(&server, alice.aid()) == before + BURST).then_some(())
        })
        .await;

        for sent in alice.call_many("message.send", &burst).await {
            sent.expect("a message is accepted");
        }
        server.kill();
        server.start_again();
        alice = server.reconnect(&alice).await;
        let after = counted(&server, alice.aid());
        assert!((before + BURST..=before + 2 * BURST).contains(&after), "{before} before, {after} now");
    }
}
