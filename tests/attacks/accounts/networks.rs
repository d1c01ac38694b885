//! Anybody may register, so new agents of one network share what they may keep.

use certs::{Curve, Key};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::super::sockets::dial;
use super::said;
use crate::support::TestServer;
use crate::support::agent::{TestIdentity, hello, public_key, text};
use crate::support::socket::TestSocket;

const BALANCER: [u8; 4] = [127, 99, 0, 1];
const SHARE: usize = 64 << 10;
const AGENTS: usize = 1000;

fn settings() -> String {
    format!(
        "proxies = ['127.99.0.1']\ntask.kept_bytes = {SHARE}\nlimits.calls_per_second = 1000000
limits.registrations_per_minute = 1000000\nlimits.logins_per_minute = 1000000\nlimits.connects_per_second = 1000000"
    )
}

/// A socket that the balancer opens for a client.
async fn socket_of(server: &TestServer, client: &str) -> TestSocket {
    let mut stream = dial(server, BALANCER).await;
    let header = format!("PROXY TCP4 {client} 127.0.0.1 40000 443\r\n");
    stream.write_all(header.as_bytes()).await.expect("the server reads");
    server.socket_over(stream).await
}

/// Registers, logs in and connects, as a client at this address.
async fn connected(server: &TestServer, name: &str, client: &str) -> TestSocket {
    let socket = socket_of(server, client).await;
    let (aid, key) = (server.aid(name), Key::generate(Curve::P256));
    let asked = json!({ "aid": aid, "public_key": public_key(&key), "curve": "P-256" });
    let cert = text(&socket.call("auth.create_aid", &asked).await["cert"]);
    let who = TestIdentity { aid, key, cert };
    let begun = socket.call("auth.aid_login1", &who.login1()).await;
    let tokens = socket.call("auth.aid_login2", &who.login2(&begun)).await;
    let token = tokens["access_token"].as_str().expect("a token");
    socket.call("auth.connect", &hello(socket.nonce(), token)).await;
    socket
}

/// A share for each agent means nothing where anybody can register a thousand of them.
#[tokio::test]
async fn a_thousand_new_agents_of_one_network_keep_no_more_than_sixteen_may() {
    let server = TestServer::with_one_gateway(&settings()).await;
    let mut bobs = Vec::new();
    for n in 0..8 {
        bobs.push(server.agent(&format!("bobb{n}")).await);
    }
    let stored = stream::iter(0..AGENTS).map(async |n| {
        let socket = connected(&server, &format!("mallory{n}"), &format!("198.51.100.{}", n % 250 + 1)).await;
        let task = json!({ "to": bobs[n % bobs.len()].aid(), "input": said(&"x".repeat(8000)) });
        socket.try_call("task.create", &task).await
    });
    let answers: Vec<Result<Value, Value>> = stored.buffer_unordered(16).collect().await;
    let refused: Vec<&Value> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    let kept = (AGENTS - refused.len()) * (8000 + 2 * 512);
    assert!(kept <= 16 * SHARE && kept > 12 * SHARE, "{kept} bytes are kept: {:?}", refused.first());
    for error in refused {
        assert_eq!(error["data"]["scope"], "accounts.network_shares", "{error}");
        assert!(error["data"]["retry_after_ms"].as_i64() > Some(0), "{error}");
    }
    let task = json!({ "to": bobs[0].aid(), "input": said(&"x".repeat(8000)) });
    let other = connected(&server, "anna", "203.0.113.9").await;
    other.call("task.create", &task).await;
}
