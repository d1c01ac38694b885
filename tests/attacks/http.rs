//! Requests over HTTP that cost the server more than those who send them: bodies of nobody, bodies of one agent, arrays with large
//! answers, writes past their rate.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use super::sockets::{dial, dial_narrow};
use crate::support::{TestServer, within};

const MIB: u64 = 1 << 20;

/// The most that the memory of the server has grown while something happens.
async fn growth_during(server: &TestServer, happens: impl Future<Output = ()>) -> u64 {
    let (before, mut most) = (server.memory(), 0);
    tokio::pin!(happens);
    loop {
        tokio::select! {
            () = &mut happens => return most.max(server.memory().saturating_sub(before)),
            () = sleep(Duration::from_millis(2)) => most = most.max(server.memory().saturating_sub(before)),
        }
    }
}

/// Begins a request with a body that never ends, and sends as much of it as the server takes.
async fn unfinished_body(server: &TestServer, path: &str, token: Option<&str>, sent: usize) -> TcpStream {
    let mut stream = dial(server, [127, 0, 9, 10]).await;
    let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: gateway\r\n{token}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        sent + 1
    );
    // A server that has refused it closes the socket in the middle.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&vec![b' '; sent]).await;
    stream
}

#[tokio::test]
async fn bodies_before_anybody_is_known_cost_no_memory() {
    const SOCKETS: usize = 900;
    let server = TestServer::with_one_gateway("limits.http_per_second = 100000").await;
    let growth = growth_during(&server, async {
        let mut held = Vec::new();
        for _ in 0..SOCKETS {
            // As large as a manifest may be, and more than anybody may send before login.
            held.push(unfinished_body(&server, "/agents", None, 128 << 10).await);
        }
        for _ in 0..SOCKETS / 3 {
            held.push(unfinished_body(&server, "/rpc", None, 60 << 10).await);
        }
        drop(held);
    })
    .await;
    // 300 of 60 KiB, and what sockets cost.
    assert!(growth < 120 * MIB, "{} MiB", growth / MIB);
}

#[tokio::test]
async fn bodies_of_one_agent_count_like_frames_that_are_not_whole() {
    const SOCKETS: usize = 700;
    let server =
        TestServer::with_one_gateway("limits.http_per_second = 100000\nlimits.calls_per_second = 100000")
            .await;
    let (alice, bobby) = (server.register("alice").await, server.register("bobby").await);
    let (mallory, honest) = (server.login(&alice).await.access, server.login(&bobby).await.access);
    let growth = growth_during(&server, async {
        let mut held = Vec::new();
        for _ in 0..SOCKETS {
            held.push(unfinished_body(&server, "/rpc", Some(&mallory), 5 << 18).await);
        }
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "meta.ping", "params": { "text": "x".repeat(100_000) } });
        let answer = server.http("POST", "/rpc").bearer(&honest).body(call.to_string()).send().await;
        assert_eq!(answer.status, 200, "somebody else is not kept out: {}", answer.text());
        drop(held);
    })
    .await;
    // Together 875 MiB; the budget of unfinished frames is 256.
    assert!(growth < 480 * MIB, "{} MiB", growth / MIB);
}

#[tokio::test]
async fn the_answers_to_arrays_are_counted_while_they_are_gathered() {
    const REQUESTS: usize = 120;
    let server =
        TestServer::with_one_gateway("limits.calls_per_second = 1000000\nlimits.http_per_second = 100000")
            .await;
    let alice = server.register("alice").await;
    let token = server.login(&alice).await.access;
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#;
    let body = format!("[{}]", vec![discover; 50].join(","));
    let request = format!(
        "POST /rpc HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let growth = growth_during(&server, async {
        let mut sending = JoinSet::new();
        for _ in 0..REQUESTS {
            let mut stream = dial_narrow(&server, [127, 0, 9, 11]).await;
            let request = request.clone();
            sending.spawn(async move {
                let _ = stream.write_all(request.as_bytes()).await;
                stream
            });
        }
        for never_read in &sending.join_all().await {
            within("an answer, or the end of the socket", never_read.readable()).await.expect("a socket");
        }
    })
    .await;
    assert!(growth < 480 * MIB, "{} MiB", growth / MIB);
    // What fits is answered, and each call that was not made says so.
    let answers = server.http("POST", "/rpc").bearer(&token).body(body.as_str()).send().await.json();
    let answers = answers.as_array().cloned().unwrap_or_default();
    let refused: Vec<_> = answers.iter().filter(|answer| answer["error"]["code"] == -32029).collect();
    assert_eq!(answers.len(), 50);
    assert!(answers[0].get("result").is_some(), "the first ones fit");
    let last = refused.last().expect("fifty of them do not fit");
    assert_eq!(last["error"]["data"]["scope"], "array_answer_bytes", "{last}");
}

#[tokio::test]
async fn writes_over_http_count_like_those_of_a_session() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let token = server.login(&alice).await.access;
    let mut refused = 0;
    for _ in 0..900 {
        let request =
            server.http("POST", "/agents").bearer(&token).header("Content-Type", "application/json");
        let answer = request.body("{}").send().await;
        assert!([400, 429].contains(&answer.status), "{}: {}", answer.status, answer.text());
        refused += usize::from(answer.status == 429);
    }
    assert!(refused >= 100, "{refused} of 900 were refused");
    let mut documents = 0;
    for _ in 0..60 {
        let put = server.http("PUT", "/agent.md").host(&alice.aid).bearer(&token).body("no document");
        documents += usize::from(put.send().await.status == 429);
    }
    assert!(documents >= 20, "{documents} of 60 documents were refused");
}
