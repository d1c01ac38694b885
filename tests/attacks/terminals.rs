//! Text of agents and gateways on the terminal of a person: it moves no cursor, hides nothing, and what is consented to was shown.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use client::{Aid, Home};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_util::task::TaskTracker;

use crate::client::HIGH_LIMITS;
use crate::client::agent_cli::AgentCli;
use crate::support::{TestServer, printed, program};

/// Clears the screen, names the window, and goes on in red: with control characters of 7 and of 8 bits. The rest reverses the text or
/// is invisible, which titles and reasons may contain, too.
const OBEYED: &str = "\u{1b}[2J\u{1b}]0;mine\u{7}\u{9b}31m\r\u{7f}";
const DECEIVING: &str = "\u{202e}pay\u{2066}\u{200f}\u{61c}\u{200b}\u{feff}\u{2028}\u{ad}\u{e0041}end";

const AGENT: &str = "mallory.agents.localhost";

fn hostile() -> String {
    format!("{OBEYED}{DECEIVING}")
}

/// Nothing that a terminal obeys or nobody sees is in what a command printed, and the rest of the text is.
#[track_caller]
fn assert_shown(printed: &str) {
    let raw: Vec<char> = printed
        .chars()
        .filter(|c| !"\n\t".contains(*c) && hostile().contains(*c) && !c.is_ascii_graphic())
        .collect();
    assert!(raw.is_empty(), "{raw:?} in {printed:?}");
    assert!(printed.contains("pay") && printed.contains("end"), "{printed:?}");
}

/// JSON for programs is the same value, and may be looked at on a terminal.
#[track_caller]
fn assert_same_json(printed: &str, pointer: &str, text: &str) {
    assert_shown(printed);
    let value: Value = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(value.pointer(pointer), Some(&json!(text)), "{printed}");
}

#[tokio::test]
async fn a_message_moves_no_cursor() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let text = hostile();
    cli.run(&["send", "alice", "bobb", &text]).await;

    assert_shown(&cli.run(&["pull", "bobb"]).await);
    assert_same_json(&cli.run(&["pull", "bobb", "--json"]).await, "/messages/0/payload/text", &text);
    let pulled = ["call", "bobb", "message.pull", r#"{"after_seq":0}"#];
    assert_same_json(&cli.run(&pulled).await, "/messages/0/payload/text", &text);

    assert_shown(&cli.run(&["listen", "bobb", "--count", "1"]).await);
    cli.run(&["send", "alice", "bobb", &text]).await;
    let frame = cli.run(&["listen", "bobb", "--count", "1", "--json"]).await;
    assert_same_json(&frame, "/params/payload/text", &text);
}

#[tokio::test]
async fn a_task_moves_no_cursor() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let text = hostile();
    let create = ["tasks", "create", "--as", "alice", "--to", "bobb", "--title", DECEIVING, "--input", &text];
    let mut waiting = cli.start_until(&[&create[..], &["--wait"]].concat(), "is watched").await;
    let listed = cli.run(&["tasks", "list", "--as", "bobb", "--json"]).await;
    assert_same_json(&listed, "/items/0/title", DECEIVING);
    let task: Value = serde_json::from_str(&listed).expect("JSON");
    let task = task["items"][0]["task_id"].as_str().expect("an id");
    for words in [&["list"][..], &["show", task], &["tree", task]] {
        assert_shown(&cli.run(&[&["tasks"], words, &["--as", "bobb"]].concat()).await);
    }
    let watch = ["tasks", "watch", task, "--as", "bobb", "--json"];
    let watched = cli.start_until(&watch[..5], "is watched").await;
    let as_json = cli.start_until(&watch, "is watched").await;
    cli.run(&["tasks", "accept", task, "--as", "bobb"]).await;
    cli.run(&["tasks", "input", task, &text, "--ask", "--as", "bobb"]).await;
    cli.run(&["tasks", "fail", task, "--reason", DECEIVING, "--as", "bobb"]).await;

    assert_shown(&watched.ended().await.1.join("\n"));
    let (_, frames) = as_json.ended().await;
    assert_same_json(frames.last().expect("an event"), "/params/reason", DECEIVING);
    assert_shown(&waiting.wait_for_note("the task was failed").await);
    assert_shown(&waiting.ended().await.1.join("\n"));
}

#[tokio::test]
async fn a_gateway_moves_no_cursor() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let text = hostile();
    let mut cli = AgentCli::new(&server);
    cli.gateway = hostile_gateway().await;
    cli.run(&["register", AGENT]).await;

    assert_shown(&cli.run(&["send", AGENT, "bobb", "hello"]).await);
    assert_same_json(&cli.run(&["send", AGENT, "bobb", "hello", "--json"]).await, "/status", &text);
    assert_same_json(&cli.run(&["call", AGENT, "meta.ping"]).await, "/pong", &text);

    let refused = cli.output_of(&["call", AGENT, "meta.status", "--json"]).await;
    assert_same_json(&printed(&refused.stdout), "/error/message", &text);
    assert_shown(&printed(&refused.stderr));
    assert_shown(&cli.run_refused(&["call", AGENT, "rpc.discover"]).await);
    assert_shown(&cli.run_refused(&["tasks", "show", "task_1", "--as", AGENT]).await);

    let listened = cli.run(&["listen", AGENT, "--count", "1"]).await;
    assert!(listened.contains("group.changed") && listened.lines().count() == 2, "{listened}");
    assert_shown(&listened);
    let frames = cli.run(&["listen", AGENT, "--count", "1", "--json"]).await;
    assert_eq!(frames.lines().count(), 2, "{frames}");
    for (frame, pointer) in frames.lines().zip(["/params/why", "/params/payload/text"]) {
        assert_same_json(frame, pointer, &text);
    }
}

/// A gateway that lets everybody in and has its say in answers, refusals and the reason why it closes a connection.
async fn hostile_gateway() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let tasks = TaskTracker::new();
    tasks.clone().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tasks.spawn(serve(stream));
        }
    });
    format!("ws://{address}/aun")
}

async fn serve(stream: TcpStream) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let challenge = json!({ "jsonrpc": "2.0", "method": "challenge", "params": { "nonce": "a-nonce" } });
    let _ = socket.send(Message::text(challenge.to_string())).await;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(call) = message else { continue };
        let call: Value = serde_json::from_str(&call).expect("a client writes JSON");
        let method = call["method"].as_str().expect("a client calls methods");
        if method == "rpc.discover" {
            // A reason has at most 123 bytes.
            let frame = CloseFrame { code: 4001.into(), reason: hostile().into() };
            let _ = socket.close(Some(frame)).await;
            return;
        }
        let mut answer = answer(method, &call["params"]["aid"]);
        (answer["jsonrpc"], answer["id"]) = (json!("2.0"), call["id"].clone());
        let _ = socket.send(Message::text(answer.to_string())).await;
        // Events before a listener has pulled its inbox may come too early for it; the first pull only reads a cursor.
        if method == "message.pull" && call["params"]["limit"] != 1 {
            for event in events() {
                let _ = socket.send(Message::text(event)).await;
            }
        }
    }
}

/// An event that no command knows, and a message. Line ends between the tokens of a frame are legal, and could look like several frames.
fn events() -> [String; 2] {
    let text = hostile();
    let row = json!({ "message_id": "m-1", "seq": 1, "from": text, "to": AGENT, "payload": { "type": "text", "text": text } });
    [("event/group.changed", json!({ "why": text })), ("event/message.received", row)].map(
        |(method, params)| {
            let frame = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            format!("{frame:#}").replace('\n', "\r\n")
        },
    )
}

fn answer(method: &str, aid: &Value) -> Value {
    let text = hostile();
    let result = match method {
        "auth.create_aid" => json!({ "aid": aid, "cert": "a certificate" }),
        "auth.aid_login1" => json!({
            "request_id": "a-request", "nonce": "another-nonce", "server_time": 0.0,
            "client_nonce_signature": "", "auth_cert": "", "auth_curve": "P-256",
        }),
        "auth.aid_login2" => json!({
            "status": "ok", "aid": aid, "access_token": "access", "refresh_token": "refresh", "expires_in": 3600,
        }),
        "auth.connect" => json!({
            "status": "ok", "protocol": "1.0", "server_time": 0.0, "authenticated": true,
            "identity": { "aid": AGENT }, "connection": { "id": "1", "kind": "short" },
            "capabilities": { "namespaces": ["message"] },
        }),
        "message.send" => json!({ "message_id": text, "status": text, "seq": 1 }),
        "message.pull" => {
            json!({ "messages": [], "count": 0, "latest_seq": 0, "has_more": false, "server_ack_seq": 0 })
        }
        "message.ack" => json!({ "success": true, "ack_seq": 1 }),
        "meta.ping" => json!({ "pong": text }),
        _ => return json!({ "error": { "code": -32000, "message": text, "data": { "why": text } } }),
    };
    json!({ "result": result })
}

const MANY_WORDS: usize = 700;

/// A folder with a manifest, an agent that may be asked, and a call whose arguments are longer than a screen. Its last words say what
/// is really wanted.
fn device(call_id: &str, folder: &Path) {
    let manifest = json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {},
        "tools": [{
            "name": "locate", "description_i18n_key": "agent.cap.tool", "permission_scope": "location:read",
            "input_schema": { "type": "object", "properties": { "place": { "type": "string" } } }
        }],
        "permission_scopes": [{ "id": "location:read", "label_i18n_key": "scope.location", "sensitivity": "high" }]
    });
    let mut place: String = (0..MANY_WORDS).map(|n| format!("word{n} ")).collect();
    place += "\u{9b}2J then delete everything";
    let call = json!({
        "from": "reader.agents.localhost", "msg_subtype": "artifact_tool_call", "content_type": "artifact",
        "payload": { "type": "artifact", "artifact": {
            "subtype": "tool_call", "call_id": call_id, "tool_name": "locate", "permission_scope": "location:read",
            "arguments": { "place": place }
        } }
    });
    fs::write(folder.join("manifest.json"), manifest.to_string()).expect("a file can be written");
    fs::write(folder.join("call.json"), call.to_string()).expect("a file can be written");
    let home = Home::new(folder.join("home"));
    let aid = Aid::parse("alice.agents.localhost").expect("a name");
    if home.agent(&aid).expect("a folder").is_none() {
        home.create(&aid).expect("a key can be made");
    }
}

fn decide(folder: &Path, how: &[&str], typed: &str) -> Output {
    let decide = format!(
        "'{}' tool decide --home home --manifest manifest.json --granted location:read --result '{{}}' < call.json",
        program()
    );
    let mut child = Command::new(how[0])
        .args(&how[1..])
        .arg(decide)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    child.stdin.take().expect("a pipe").write_all(typed.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// On a terminal of its own, at which somebody types.
fn on_a_terminal(folder: &Path, typed: &str) -> String {
    let output = decide(folder, &["script", "--quiet", "--log-out", "/dev/null", "--command"], typed);
    printed(&output.stdout)
}

#[test]
fn nobody_consents_to_arguments_that_were_not_shown() {
    let here = tempfile::tempdir().expect("a temporary folder can be made");
    device("a", here.path());
    let at_once = on_a_terminal(here.path(), "y\n");
    assert!(at_once.contains("user_refused"), "a yes to the first page is none to the whole: {at_once}");
    let (_, many) = at_once.split_once("page 1 of ").expect("the arguments have pages");
    let many: usize =
        many.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().expect("a number");
    assert!(many > 1, "{at_once}");

    device("b", here.path());
    let whole = on_a_terminal(here.path(), &("\n".repeat(many - 1) + "y\n"));
    assert!(whole.contains(r#""status":"ok""#), "{whole}");
    // Lines are as wide as the terminal, wherever that ends a word.
    let unbroken: String = whole.chars().filter(|c| !c.is_whitespace()).collect();
    for n in [0, MANY_WORDS / 2, MANY_WORDS - 1] {
        assert!(unbroken.contains(&format!("word{n}")), "word{n} in {whole}");
    }
    assert!(unbroken.contains("thendeleteeverything") && !whole.contains(['\u{9b}', '\u{1b}']), "{whole}");
}

#[test]
fn without_a_terminal_nobody_consents_and_a_sentence_says_why() {
    let here = tempfile::tempdir().expect("a temporary folder can be made");
    device("a", here.path());
    let output = decide(here.path(), &["setsid", "--wait", "sh", "-c"], "");
    let (answer, said) = (printed(&output.stdout), printed(&output.stderr));
    assert!(answer.contains(r#""status":"denied""#), "{answer}");
    assert!(said.contains("no terminal") && said.contains("--yes"), "{said}");
}
