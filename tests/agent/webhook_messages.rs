//! Messages by webhook: over kills of the server and failures of the hook, by the commands, and with the receiver of the guide.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::client::agent_cli::AgentCli;
use crate::support::agent::{ConnectedAgent, random_hex, text};
use crate::support::{TestServer, now, setting, until};

const SETTINGS: &str = "agent.webhook.allow_private = true";

/// What a hook has accepted: message ids with their deliveries, types and bodies, in the order in which they came.
type Accepted = Arc<Mutex<Vec<(String, String, String, String)>>>;

/// A hook on this machine that fails at first; gives its URL, and what it accepted.
async fn hook(tasks: &mut JoinSet<()>, failures: usize) -> (String, Accepted) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}/hook", listener.local_addr().expect("it listens"));
    let accepted = Accepted::default();
    let received = accepted.clone();
    tasks.spawn(async move {
        let mut left = failures;
        while let Ok((stream, _)) = listener.accept().await {
            let status = if left > 0 { "500 Internal Server Error" } else { "204 No Content" };
            let Some((head, body)) = answer(stream, status).await else { continue };
            if left > 0 {
                left -= 1;
                continue;
            }
            let read: Value = serde_json::from_str(&body).expect("it is JSON");
            let (id, kind) = (text(&read["message"]["message_id"]), text(&read["type"]));
            received.lock().push((id, header(&head, "x-hashee-delivery-id"), kind, body));
        }
    });
    (url, accepted)
}

/// Reads a request and answers it; none where the server was killed meanwhile.
async fn answer(mut stream: TcpStream, status: &str) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&piece[..length]);
        let request = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        if body.len() >= header(&head, "content-length").parse::<usize>().expect("a length") {
            let head_of_answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.write_all(head_of_answer.as_bytes()).await;
            return Some((head, body.to_owned()));
        }
    }
}

fn header(head: &str, name: &str) -> String {
    let found = head.lines().filter_map(|line| line.split_once(':')).find(|(header, _)| *header == name);
    found.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// That the key of an agent that is its own owner agrees to a URL.
fn webhook_proof(agent: &ConnectedAgent, url: &str) -> Value {
    let (aid, timestamp, nonce) = (agent.aid(), now(), random_hex(16));
    let signed = format!("aun-agent-webhook-v1\n{aid}\n{aid}\n{url}\n{timestamp}\n{nonce}");
    json!({ "aid": aid, "timestamp": timestamp, "nonce": nonce, "signature": agent.identity.sign(&signed) })
}

/// What the device of the webhook is answered.
async fn pulled_over_http(server: &TestServer, agent: &ConnectedAgent) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message.pull", "params": {} });
    let request = server.http("POST", "/rpc").header("Content-Type", "application/json");
    request.body(call.to_string()).bearer(&agent.tokens.access).send().await.json()
}

/// The device is made after the answer; until then messages have no place there.
async fn until_it_has_a_device(server: &TestServer, agent: &ConnectedAgent) {
    until("the device is there", || async {
        pulled_over_http(server, agent).await["result"].is_object().then_some(())
    })
    .await;
}

async fn send(from: &ConnectedAgent, to: &str, id: &str) {
    let message = json!({ "to": to, "message_id": id, "payload": { "type": "text", "text": id } });
    // One that was cut off is sent again, under the same id.
    from.call("message.send", &message).await;
}

#[tokio::test]
async fn a_hook_that_fails_at_first_gets_every_message_in_order_from_a_server_that_is_killed_twice() {
    let mut server = TestServer::with(SETTINGS).await;
    let mut tasks = JoinSet::new();
    let (url, accepted) = hook(&mut tasks, 2).await;
    let (mut alice, hooked) = (server.agent("alice").await, server.agent("hooked").await);
    let to = hooked.aid().to_owned();
    let params = json!({ "name": "Hooked", "connection_mode": "webhook", "webhook_url": url });
    let made = hooked.call("agent.create", &params).await;
    assert_eq!(made["agent"]["webhook_messages"], false, "a token alone does not turn it on");
    let agreed = json!({ "id": made["agent"]["id"], "webhook_proof": webhook_proof(&hooked, &url) });
    let agreed = hooked.call("agent.update", &agreed).await;
    assert_eq!(agreed["agent"]["webhook_messages"], true);

    until_it_has_a_device(&server, &hooked).await;

    let mut sent = Vec::new();
    for round in 0..3 {
        for number in 0..20 {
            let id = format!("m-{round}-{number:02}");
            send(&alice, &to, &id).await;
            sent.push(id);
        }
        if round < 2 {
            if round == 1 {
                let some = async {
                    while accepted.lock().is_empty() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                };
                tokio::time::timeout(Duration::from_secs(120), some).await.expect("the hook accepts some");
            }
            server.kill();
            server.start_again();
            alice = server.reconnect(&alice).await;
        }
    }
    let last = sent.last().expect("messages were sent").clone();
    // The first message is tried again after 1 and 5 seconds, and what a killed process was sending when its lease has run out.
    let came_in = async {
        while !accepted.lock().iter().any(|(id, ..)| *id == last) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), came_in).await.expect("the last message comes");
    let came = accepted.lock().clone();
    let mut once: Vec<&str> = came.iter().map(|(id, ..)| id.as_str()).collect();
    once.dedup();
    assert_eq!(once, sent, "every message, at least once, in order");
    let mut deliveries = BTreeMap::new();
    for (id, delivery, kind, _) in &came {
        assert_eq!(deliveries.entry(id).or_insert(delivery), &delivery, "{id} has one delivery id");
        assert_eq!(kind, "message.new");
    }
    until("everything is acknowledged", || async {
        (pulled_over_http(&server, &hooked).await["result"]["server_ack_seq"] == 60).then_some(())
    })
    .await;
    let online = alice.call("message.query_online", &json!({ "aids": [to] })).await;
    assert_eq!(online["online"][&to], false, "it has no connection any more");
}

#[tokio::test]
async fn a_hook_gets_a_payload_byte_for_byte() {
    const PAYLOAD: &str =
        r#"{ "z" : 1e-7 ,"type":"e2ee.encrypted","a":1.0,"n":[ 0.10,-0,1E+3],"ciphertext":"\u00e9é\/\\" }"#;
    let server = TestServer::with(SETTINGS).await;
    let mut tasks = JoinSet::new();
    let (url, accepted) = hook(&mut tasks, 0).await;
    let (alice, hooked) = (server.agent("alice").await, server.agent("hooked").await);
    let params = json!({
        "name": "Hooked", "connection_mode": "webhook", "webhook_url": url, "webhook_proof": webhook_proof(&hooked, &url),
    });
    hooked.call("agent.create", &params).await;
    until_it_has_a_device(&server, &hooked).await;
    let message = format!(r#"{{"to":"{}","message_id":"m-1","payload":{PAYLOAD}}}"#, hooked.aid());
    alice.call_text("message.send", &message).await;
    until("it came", || async { (!accepted.lock().is_empty()).then_some(()) }).await;
    let (_, _, _, body) = accepted.lock()[0].clone();
    assert!(body.contains(PAYLOAD), "{body}");
}

/// The only block of this language in a guide, as it is printed.
fn printed_block(guide: &str, language: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
    let document = std::fs::read_to_string(root.join(guide)).expect("the guide is there");
    let (_, block) = document.split_once(&format!("```{language}\n")).expect("it has such a block");
    let (block, rest) = block.split_once("```").expect("the block ends");
    assert!(!rest.contains(&format!("```{language}\n")), "there is one");
    block.to_owned()
}

#[tokio::test]
async fn the_receiver_of_the_guide_verifies_and_answers() {
    let server = TestServer::shared_with(SETTINGS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = port.expect("a port is free").port().to_string();
    let url = format!("http://127.0.0.1:{port}/");
    let set = cli.run(&["agent", "webhook", "set", &url, "--as", "bobb", "--json"]).await;
    let set: Value = serde_json::from_str(&set).expect("it is JSON");
    assert_eq!((&set["webhook_messages"], &set["webhook_url"]), (&json!(true), &json!(url)));
    let secret = text(&set["webhook_secret"]);
    let refused = cli.run_refused(&["agent", "webhook", "test", "bobb"]).await;
    assert!(refused.contains("did not accept the ping"), "{refused}");

    let program = cli.folder.join("receiver.py");
    std::fs::write(&program, printed_block("docs/webhooks.md", "python")).expect("a file can be written");
    let python = setting("AUND_TEST_PYTHON").unwrap_or_else(|| "python3".to_owned());
    let start = |secret: &str| {
        Command::new(&python)
            .arg(&program)
            .arg(&port)
            .env("WEBHOOK_SECRET", secret)
            .env("AUN_TOKENS", cli.agent("bobb").join("tokens.json"))
            .env("AUN_RPC", format!("https://{}/rpc", cli.gateway))
            .env("AUN_ROOT", cli.folder.join("data/pki/root.crt"))
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("python can be started")
    };
    let mut other = start("another secret");
    until("the receiver with another secret refuses", || async {
        let refused = cli.run_refused(&["agent", "webhook", "test", "bobb"]).await;
        refused.contains("it answered with 401").then_some(())
    })
    .await;
    other.kill().await.expect("it is our child");
    let _receiver = start(&secret);
    until("the receiver accepts", || async {
        let tested = cli.output_of(&["agent", "webhook", "test", "bobb"]).await;
        tested.status.success().then_some(())
    })
    .await;

    cli.run(&["send", "alice", "bobb", "hello hook"]).await;
    until("the answer is there", || async {
        let pulled = cli.run(&["pull", "alice"]).await;
        pulled.contains("hello hook").then_some(())
    })
    .await;

    let removed = cli.run(&["agent", "webhook", "remove", "--as", "bobb"]).await;
    assert!(removed.contains("removed"), "{removed}");
    let gone = cli.run_refused(&["agent", "webhook", "test", "bobb"]).await;
    assert!(gone.contains("has no webhook_url"), "{gone}");
}
