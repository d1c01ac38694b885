//! `POST /rpc`: the methods of the server for whoever has a token and no WebSocket.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::http::TestResponse;

async fn post(server: &TestServer, token: Option<&str>, body: impl Into<Vec<u8>>) -> TestResponse {
    let request = server.http("POST", "/rpc").header("Content-Type", "application/json").body(body);
    match token {
        Some(token) => request.bearer(token).send().await,
        None => request.send().await,
    }
}

fn call(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
}

#[tokio::test]
async fn what_needs_no_connection_is_called_by_token() {
    let server = TestServer::shared().await;
    let (alice, bob) = (server.register("alice").await, server.agent("bobby").await);
    let token = server.login(&alice).await.access;
    let result = async |method: &str, params: Value| {
        let answer = post(&server, Some(&token), call(method, &params)).await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        let answer = answer.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    };
    assert_eq!(result("meta.ping", json!({})).await["pong"], true);
    assert_eq!(result("meta.capabilities", json!({})).await, server.get("/capabilities").await.json());
    assert_eq!(result("meta.trust_roots", json!({})).await, server.get("/pki/trust-roots.json").await.json());
    assert!(result("rpc.discover", json!({})).await["methods"].is_array());
    let online = result("message.query_online", json!({ "aids": [bob.aid()] })).await;
    assert_eq!(online["online"][bob.aid()], true);

    let message = json!({ "to": bob.aid(), "payload": { "text": "over HTTP" } });
    let sent = result("message.send", message).await;
    let event = bob.next_event().await;
    assert_eq!(event["params"]["message_id"], sent["message_id"]);
    assert_eq!(event["params"]["from"], alice.aid);
}

#[tokio::test]
async fn what_needs_a_connection_says_so() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let token = server.login(&alice).await.access;
    for method in ["message.pull", "meta.status", "auth.connect"] {
        let answer = post(&server, Some(&token), call(method, &json!({}))).await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (200, &json!(-32600)), "{method}");
        assert!(error["message"].as_str().unwrap().contains("WebSocket"), "{error}");
    }
    for method in ["ca.get_cert", "notification/route", "no.such"] {
        let answer = post(&server, Some(&token), call(method, &json!({}))).await.json();
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
}

#[tokio::test]
async fn without_a_token_only_what_comes_before_login_is_answered() {
    let server = TestServer::shared().await;
    let root = post(&server, None, call("auth.download_cert", &json!({ "cert_sn": "root" }))).await;
    assert_eq!((root.status, root.json()["result"]["cert"].as_str()), (200, Some(server.root().pem())));
    for method in ["meta.ping", "message.send", "ca.get_cert", "no.such"] {
        let answer = post(&server, None, call(method, &json!({}))).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32013)), "{method}");
    }
    let batch = format!("[{}]", call("auth.download_cert", &json!({ "cert_sn": "root" })));
    assert_eq!(post(&server, None, batch).await.json()["error"]["code"], -32600);
    let large = call("auth.download_cert", &json!({ "cert_sn": "x".repeat(70_000) }));
    assert_eq!(post(&server, None, large).await.status, 413);
}

#[tokio::test]
async fn a_token_that_is_not_valid_is_401_whatever_is_called() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    for token in ["not-a-token", &tokens.refresh] {
        let answer =
            post(&server, Some(token), call("auth.download_cert", &json!({ "cert_sn": "root" }))).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &json!(4001)));
        assert!(answer.header("www-authenticate").is_some_and(|how| how.starts_with("Bearer")));
    }
}

#[tokio::test]
async fn a_body_is_read_as_strictly_as_a_frame() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let token = server.login(&alice).await.access;
    let post = async |body: &[u8]| post(&server, Some(&token), body).await;
    for (body, code) in [
        (&b"{"[..], -32700),
        (b"", -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"meta.ping","params":{"a":1,"a":2}}"#, -32600),
        (br#"{"jsonrpc":"1.0","id":1,"method":"meta.ping"}"#, -32600),
    ] {
        let answer = post(body).await;
        let text = String::from_utf8_lossy(body);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(code)), "{text}");
    }
    let batch =
        post(br#"[{"jsonrpc":"2.0","id":1,"method":"meta.ping"},{"jsonrpc":"2.0","method":"meta.ping"},7]"#);
    let answers = batch.await.json();
    assert_eq!(answers.as_array().map(Vec::len), Some(2), "{answers}");
    assert_eq!((&answers[0]["id"], &answers[1]["error"]["code"]), (&json!(1), &json!(-32600)));
    let silent = post(br#"{"jsonrpc":"2.0","method":"meta.ping"}"#).await;
    assert_eq!((silent.status, silent.body.len()), (204, 0), "a notification has no answer");
    let get = server.http("GET", "/rpc").send().await;
    assert_eq!((get.status, get.header("allow")), (405, Some("POST, OPTIONS")));
}

#[tokio::test]
async fn calls_over_http_and_over_a_websocket_are_counted_together() {
    let server = TestServer::shared_with("limits.calls_per_second = 5").await;
    let alice = server.register("alice").await;
    let token = server.login(&alice).await.access;
    let limited = async {
        loop {
            let answer = post(&server, Some(&token), call("meta.ping", &json!({}))).await;
            if answer.status != 200 {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(std::time::Duration::from_secs(60), limited).await.expect("a limit");
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (429, &json!(-32029)));
    assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok()));
}
