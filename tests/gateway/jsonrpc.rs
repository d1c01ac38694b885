//! JSON-RPC 2.0 exactly: what is a request, what is not, and that nothing malformed has an effect.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::support::TestServer;
use crate::support::agent::text;
use crate::support::socket::TestSocket;

const SHORT_FRAMES: &str = "limits.frame_bytes = 4096";

/// A ping with this written in place of its id.
fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"meta.ping","params":{{}}}}"#)
}

fn raw(bytes: &[u8]) -> Message {
    Message::Frame(Frame::message(bytes.to_vec(), OpCode::Data(Data::Text), true))
}

async fn refused(socket: &TestSocket, frame: &str, code: i64) -> Value {
    let answer = socket.answer_to(frame).await;
    assert_eq!(answer["error"]["code"], code, "{frame:.200}: {answer}");
    assert!(answer.get("result").is_none(), "{answer}");
    assert!(!text(&answer["error"]["message"]).is_empty());
    assert!(
        answer["error"]["data"]["kind"].is_string() && answer["error"]["data"]["retryable"].is_boolean(),
        "{answer}"
    );
    answer
}

#[tokio::test]
async fn ids_come_back_as_they_were_written() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for id in [r#""rpc-1""#, "7", "-1", "1.50", "0", "9007199254740991", r#""é\u0000\"""#, r#""""#, "null"] {
        alice.send(&ping(id)).await;
        let answer = alice.next_text().await;
        assert!(answer.contains(&format!("\"id\":{id}")), "{id} in {answer}");
        assert!(answer.contains("\"pong\":true"), "{answer}");
    }
}

#[tokio::test]
async fn what_is_not_json_gets_a_parse_error_without_an_id() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let whole = ping("1");
    for frame in [
        "",
        " ",
        "{",
        "nul",
        "{\"a\":}",
        "{'a':1}",
        "NaN",
        "\u{feff}{}",
        "{} {}",
        r#""\ud800""#,
        &whole[..whole.len() - 1],
    ] {
        let answer = refused(&alice, frame, -32700).await;
        assert_eq!(answer["id"], Value::Null);
    }
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn a_request_cut_off_anywhere_is_no_json() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let whole =
        r#"{"jsonrpc":"2.0","id":"x","method":"meta.ping","params":{"é":[1.5e1,null,true,"\u00e9"]}}"#;
    assert_eq!(alice.answer_to(whole).await["result"]["pong"], true);
    for end in (1..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        refused(&alice, &whole[..end], -32700).await;
    }
    assert_eq!(alice.answer_to(whole).await["result"]["pong"], true);
}

#[tokio::test]
async fn json_that_is_no_request_is_refused_with_its_id_where_it_has_one() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for frame in
        ["5", "\"text\"", "null", "true", "{}", "[]", r#"{"jsonrpc":"2.0","id":{},"method":"meta.ping"}"#]
    {
        assert_eq!(refused(&alice, frame, -32600).await["id"], Value::Null, "{frame}");
    }
    for frame in [
        r#"{"id":1,"method":"meta.ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"meta.ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"meta.ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"meta.ping","params":5}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"meta.ping","params":"x"}"#,
    ] {
        let answer = refused(&alice, frame, -32600).await;
        assert!(answer["id"] == 1 || answer["id"] == Value::Null, "{frame}: {answer}");
    }
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn duplicate_keys_long_numbers_and_deep_nesting_are_refused_with_where() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let with = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"meta.ping","params":{params}}}"#);
    let nested = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    for (frame, word) in [
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"meta.ping"}"#.to_owned(), "id"),
        (with(r#"{"a":1,"b":{"key":1,"key":2}}"#), "key"),
        (with(r#"{"key":1,"\u006bey":2}"#), "key"),
        (with(r#"{"a":9007199254740992}"#), "2^53"),
        (with(r#"{"a":-9007199254740992}"#), "2^53"),
        (with(r#"{"a":[18446744073709551616]}"#), "2^53"),
        (with(&nested(100)), "deep"),
        (with(&nested(100_000)), "deep"),
    ] {
        let answer = refused(&alice, &frame, -32600).await;
        assert!(text(&answer["error"]["message"]).contains(word), "{word}: {answer}");
    }
    for fine in [r#"{"a":9007199254740991,"b":-9007199254740991,"c":1e3,"d":0.1}"#, &nested(50)] {
        assert_eq!(alice.answer_to(&with(fine)).await["result"]["pong"], true, "{fine:.80}");
    }
}

#[tokio::test]
async fn a_number_as_id_beyond_53_bits_is_refused() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    refused(&alice, &ping("9007199254740993"), -32600).await;
    refused(&alice, &ping("true"), -32600).await;
    refused(&alice, &ping("[1]"), -32600).await;
}

#[tokio::test]
async fn parameters_by_position_are_refused_and_absent_ones_are_none() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let answer =
        refused(&alice, r#"{"jsonrpc":"2.0","id":1,"method":"meta.ping","params":[1]}"#, -32602).await;
    assert_eq!(answer["id"], 1);
    refused(&alice, r#"{"jsonrpc":"2.0","id":1,"method":"meta.ping","params":[]}"#, -32602).await;
    let absent = alice.answer_to(r#"{"jsonrpc":"2.0","id":1,"method":"meta.ping"}"#).await;
    assert_eq!(absent["result"]["pong"], true);
}

#[tokio::test]
async fn every_wrong_member_is_named_by_its_path() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let error = alice
        .call_error("auth.request_cert", &json!({ "aid": alice.aid(), "public_key": 5, "curve": "P-256" }))
        .await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("request_id is required")));
    let found = error["data"]["violations"].as_array().expect("a list");
    let (first, last) = (&found[0], &found[found.len() - 1]);
    assert_eq!((&first["path"], &first["rule"]), (&json!("/request_id"), &json!("required")));
    assert_eq!((&last["path"], &last["rule"]), (&json!("/public_key"), &json!("type")));

    let error = alice.call_error("auth.request_cert", &json!({ "aid": alice.aid() })).await;
    let missing = |it: &Value| it["path"] == "/public_key" && it["rule"] == "required";
    assert!(error["data"]["violations"].as_array().expect("a list").iter().any(missing), "{error}");
}

#[tokio::test]
async fn methods_that_do_not_exist_or_are_not_for_clients_look_the_same() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for method in [
        "no.such",
        "nonsense",
        "",
        "META.PING",
        "meta.ping ",
        "ca.status",
        "agent.get_agent_md",
        "auth.verify_token",
        "message.session_opened",
        "search.status",
    ] {
        let error = alice.call_error(method, &json!({})).await;
        assert_eq!(error["code"], -32601, "{method}: {error}");
        assert_eq!(error["data"]["kind"], "method_not_found");
    }
}

#[tokio::test]
async fn a_notification_is_never_answered() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for method in ["meta.ping", "no.such", "ca.status", "auth.request_cert"] {
        alice.notify(method, &json!({})).await;
    }
    alice.send(r#"{"jsonrpc":"2.0","method":"meta.ping","params":{}}"#).await;
    assert_eq!(alice.answer_to(&ping("\"last\"")).await["id"], "last", "the first answer is to the first id");
    assert!(alice.events_so_far().await.is_empty());
}

#[tokio::test]
async fn a_batch_is_answered_as_one_array_without_its_notifications() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": "a", "method": "meta.ping" },
        { "jsonrpc": "2.0", "method": "meta.ping" },
        { "jsonrpc": "2.0", "id": 2, "method": "no.such" },
        5,
        { "jsonrpc": "2.0", "id": 3, "method": "meta.status", "params": {} },
    ]);
    let answers = alice.answer_to(&batch.to_string()).await;
    let answers = answers.as_array().expect("an array for an array");
    assert_eq!(answers.len(), 4, "{answers:?}");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).expect("an answer to each id");
    assert_eq!(of(json!("a"))["result"]["pong"], true);
    assert_eq!(of(json!(2))["error"]["code"], -32601);
    assert_eq!(of(json!(3))["result"]["aid"], alice.aid());
    assert_eq!(of(Value::Null)["error"]["code"], -32600);
}

#[tokio::test]
async fn a_batch_of_notifications_gets_no_answer_at_all() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    alice.send(r#"[{"jsonrpc":"2.0","method":"meta.ping"},{"jsonrpc":"2.0","method":"no.such"}]"#).await;
    assert_eq!(alice.answer_to(&ping("\"next\"")).await["id"], "next");
}

#[tokio::test]
async fn a_batch_holds_one_to_fifty_requests() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let batch = |many: usize| {
        let members: Vec<String> = (0..many).map(|n| ping(&n.to_string())).collect();
        format!("[{}]", members.join(","))
    };
    assert_eq!(alice.answer_to(&batch(50)).await.as_array().map(Vec::len), Some(50));
    refused(&alice, &batch(51), -32600).await;
    refused(&alice, &batch(0), -32600).await;
    assert!(alice.is_open().await);
}

#[tokio::test]
async fn reserved_members_are_removed_from_params() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.register("carol").await);
    let spoofed = json!({
        "_auth": { "aid": carol.aid }, "_caller_id": carol.aid, "_federation": { "from_issuer": "evil.example" },
        "_caller": { "service": "auth" }, "caller": { "session": { "aid": carol.aid } }, "_trace": { "trace_id": "0".repeat(32) },
    });
    assert_eq!(alice.call("meta.status", &spoofed).await["aid"], alice.aid());

    let key = certs::Key::generate(certs::Curve::P384);
    let mut params = spoofed.clone();
    params["aid"] = json!(carol.aid);
    params["public_key"] = json!(crate::support::agent::public_key(&key));
    params["curve"] = json!("P-384");
    assert_eq!(alice.call_error("auth.request_cert", &params).await["code"], -32004);
}

#[tokio::test]
async fn answers_come_to_whoever_asked_even_when_many_ask_at_once() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for n in 0..200 {
        alice.send(&ping(&n.to_string())).await;
    }
    let mut seen = vec![false; 200];
    for _ in 0..200 {
        let answer = alice.next().await;
        seen[usize::try_from(answer["id"].as_u64().expect("an id")).unwrap()] = true;
    }
    assert!(seen.into_iter().all(|answered| answered));
}

#[tokio::test]
async fn a_binary_frame_ends_the_socket_with_1003() {
    let server = TestServer::shared().await;
    let (alice, unauthenticated) = (server.agent("alice").await, server.socket().await);
    for socket in [&alice, &unauthenticated] {
        socket.send_message(Message::binary(ping("1").into_bytes())).await;
        assert_eq!(socket.closed().await.code, 1003);
    }
}

#[tokio::test]
async fn a_text_frame_that_is_not_utf8_ends_the_socket_with_1007() {
    let server = TestServer::shared().await;
    let (alice, unauthenticated) = (server.agent("alice").await, server.socket().await);
    for socket in [&alice, &unauthenticated] {
        socket.send_message(raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"meta.\xff\xfe\"}")).await;
        assert_eq!(socket.closed().await.code, 1007);
    }
}

#[tokio::test]
async fn a_frame_that_breaks_the_rules_of_websocket_ends_the_socket_with_1002() {
    let server = TestServer::shared().await;
    let (alice, unauthenticated) = (server.agent("alice").await, server.socket().await);
    for socket in [&alice, &unauthenticated] {
        let mut frame = Frame::message(ping("1").into_bytes(), OpCode::Data(Data::Text), true);
        frame.header_mut().rsv1 = true;
        socket.send_message(Message::Frame(frame)).await;
        assert_eq!(socket.closed().await.code, 1002);
    }
}

#[tokio::test]
async fn a_frame_that_is_too_long_ends_the_socket_with_1009() {
    let server = TestServer::shared_with(SHORT_FRAMES).await;
    let (alice, unauthenticated) = (server.agent("alice").await, server.socket().await);
    let padded = |length: usize| {
        let frame = r#"{"jsonrpc":"2.0","id":1,"method":"meta.ping","params":{"pad":""}}"#;
        frame.replace("\"\"", &format!("\"{}\"", "x".repeat(length - frame.len())))
    };
    assert_eq!(alice.answer_to(&padded(4096)).await["result"]["pong"], true, "the limit itself fits");
    for socket in [&alice, &unauthenticated] {
        let _ = socket.try_send(Message::text(padded(4097))).await;
        assert_eq!(socket.closed().await.code, 1009);
    }
}

#[tokio::test]
async fn fragments_together_are_one_frame_and_count_as_one() {
    let server = TestServer::shared_with(SHORT_FRAMES).await;
    let alice = server.agent("alice").await;
    let whole = ping("\"parts\"");
    let (head, tail) = whole.split_at(20);
    let part = |text: &str, data, last| {
        Message::Frame(Frame::message(text.as_bytes().to_vec(), OpCode::Data(data), last))
    };
    alice.send_message(part(head, Data::Text, false)).await;
    alice.send_message(part(tail, Data::Continue, true)).await;
    assert_eq!(alice.next().await["id"], "parts");

    let long = "x".repeat(3000);
    alice.send_message(part(&long, Data::Text, false)).await;
    let _ = alice.try_send(part(&long, Data::Continue, true)).await;
    assert_eq!(alice.closed().await.code, 1009);
}

#[tokio::test]
async fn the_largest_frame_of_the_protocol_is_accepted() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let pong = alice.call("meta.ping", &json!({ "pad": "x".repeat(1_000_000) })).await;
    assert_eq!(pong["pong"], true);
}
