//! What is sent, and who sees it when.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::HIGH_LIMITS;
use super::agent_cli::{AgentCli, texts};
use crate::support::agent::{at, hello, text};
use crate::support::{TestServer, printed, within};

#[tokio::test]
async fn a_message_reaches_whoever_listens() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let bobb = cli.start_listener(&["listen", "bobb", "--count", "2", "--json"]).await;
    let sent = cli.run(&["send", "alice", "bobb", "hello"]).await;
    assert!(sent.starts_with(&format!("delivered to {} as #1", server.aid("bobb"))), "{sent}");
    let sent = cli.run(&["send", "alice", &server.aid("bobb"), "again", "--json"]).await;
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!((&sent["status"], &sent["seq"]), (&json!("delivered"), &json!(2)));

    let (code, lines) = bobb.ended().await;
    assert_eq!(code, Some(0));
    assert_eq!(texts(&lines), ["hello", "again"]);
    let frame: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(frame["params"]["message_id"], sent["message_id"]);
    assert_eq!(cli.run(&["pull", "bobb"]).await, "", "what was shown is acknowledged");
}

#[tokio::test]
async fn what_waited_is_shown_before_what_comes() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    for text in ["one", "two", "three"] {
        cli.run(&["send", "alice", "bobb", text]).await;
    }
    let shown = cli.run(&["listen", "bobb", "--count", "2", "--json"]).await;
    let lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    assert_eq!(texts(&lines), ["one", "two"]);

    let bobb = cli.start_listener(&["listen", "bobb", "--count", "2"]).await;
    cli.run(&["send", "alice", "bobb", "four"]).await;
    let (code, lines) = bobb.ended().await;
    assert_eq!(code, Some(0));
    assert!(lines[0].ends_with("three") && lines[1].ends_with("four"), "{lines:?}");
    assert!(lines[1].contains(&format!("#4 {} → {}", server.aid("alice"), server.aid("bobb"))), "{lines:?}");
}

#[tokio::test]
async fn messages_are_pulled_until_they_are_acknowledged() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let sent = cli.run(&["send", "alice", "bobb", "first"]).await;
    assert!(sent.starts_with("sent to"), "nobody listens: {sent}");
    cli.run(&["send", "alice", "bobb", "\u{1b}[2Jsecond"]).await;

    for _ in 0..2 {
        let shown = cli.run(&["pull", "bobb"]).await;
        assert!(shown.contains("first") && shown.contains("\\u001b[2Jsecond"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "nobody else writes to the terminal");
    }
    assert_eq!(cli.run(&["pull", "bobb", "--limit", "1", "--ack"]).await.lines().count(), 1);
    let rest: Value = serde_json::from_str(&cli.run(&["pull", "bobb", "--ack", "--json"]).await).unwrap();
    assert_eq!((&rest["count"], &rest["messages"][0]["seq"]), (&json!(1), &json!(2)));
    assert_eq!(cli.run(&["pull", "bobb"]).await, "");
    assert_eq!(cli.run(&["pull", "bobb", "--after", "0"]).await.lines().count(), 2);
}

#[tokio::test]
async fn a_message_can_come_from_standard_input() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let mut send = cli.command(&["send", "alice", "bobb", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = send.stdin.take().expect("a pipe");
    stdin.write_all("two\nlines\n".as_bytes()).await.unwrap();
    drop(stdin);
    assert!(within("a command", send.wait()).await.unwrap().success());
    let page: Value = serde_json::from_str(&cli.run(&["pull", "bobb", "--json"]).await).unwrap();
    assert_eq!(page["messages"][0]["payload"], json!({ "type": "text", "text": "two\nlines" }));
}

#[tokio::test]
async fn a_listener_ends_well_when_it_is_interrupted() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["bobb"]).await;
    let bobb = cli.start_listener(&["listen", "bobb"]).await;
    let pid = bobb.child.id().expect("it runs").to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    assert_eq!(bobb.ended().await, (Some(0), vec![]));
}

#[tokio::test]
async fn a_listener_comes_back_when_the_server_does() {
    let mut server = TestServer::start().await;
    let upstream = Arc::new(AtomicU16::new(server.tls_port));
    let mut cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    cli.gateway = forward(upstream.clone()).await;
    let mut bobb = cli.start_listener(&["listen", "bobb", "--count", "2", "--json"]).await;
    cli.run(&["send", "alice", "bobb", "before"]).await;

    server.restart().await;
    upstream.store(server.tls_port, Ordering::Relaxed);
    bobb.wait_for_note("trying again").await;
    bobb.wait_for_note("is listening").await;
    cli.run(&["send", "alice", "bobb", "after"]).await;
    let (code, lines) = bobb.ended().await;
    assert_eq!((code, texts(&lines)), (Some(0), vec![json!("before"), json!("after")]));
}

/// An address that stays while the server behind it moves.
pub(super) async fn forward(upstream: Arc<AtomicU16>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let tasks = TaskTracker::new();
    tasks.clone().spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let port = upstream.load(Ordering::Relaxed);
            tasks.spawn(async move {
                let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    address.to_string()
}

#[tokio::test]
async fn a_second_listener_replaces_the_first() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["bobb"]).await;
    let first = cli.start_listener(&["listen", "bobb"]).await;
    let _second = cli.start_listener(&["listen", "bobb"]).await;
    let (code, lines) = first.ended().await;
    assert_eq!(code, Some(1), "it does not come back to push the other out");
    assert!(lines[0].contains("4009"), "{lines:?}");
}

#[tokio::test]
async fn a_listener_sees_what_is_recalled() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let bobb = cli.start_listener(&["listen", "bobb", "--count", "2"]).await;
    let sent = cli.run(&["send", "alice", "bobb", "a mistake", "--json"]).await;
    let sent: Value = serde_json::from_str(&sent).unwrap();
    let ids = json!({ "message_ids": [sent["message_id"]] }).to_string();
    let recalled = cli.run(&["call", "alice", "message.recall", &ids, "--json"]).await;
    assert!(recalled.contains("\"recalled\":1"), "{recalled}");
    cli.run(&["send", "alice", "bobb", "better"]).await;

    let (code, lines) = bobb.ended().await;
    let id = sent["message_id"].as_str().expect("an id");
    assert_eq!((code, lines.len()), (Some(0), 3), "{lines:?}");
    assert!(lines[0].ends_with("a mistake") && lines[2].ends_with("better"), "{lines:?}");
    assert!(lines[1].contains(&format!("{} recalled {id}", server.aid("alice"))), "{lines:?}");
    let kept = cli.run(&["pull", "bobb", "--after", "0"]).await;
    assert!(!kept.contains("a mistake") && kept.contains("better"), "{kept}");
}

#[tokio::test]
async fn a_message_without_a_seq_is_shown_once() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    // A message needs a device to wait at, and the first pull makes it known.
    cli.run(&["pull", "bobb"]).await;
    let to = server.aid("bobb");
    let with_ttl = |text: &str| json!({ "to": to, "ttl": 600, "payload": { "type": "text", "text": text } });
    cli.run(&["call", "alice", "message.send", &with_ttl("soon gone").to_string()]).await;
    let bobb = cli.start_listener(&["listen", "bobb", "--count", "3", "--json"]).await;
    cli.run(&["call", "alice", "message.send", &with_ttl("gone too").to_string()]).await;
    cli.run(&["send", "alice", "bobb", "to stay"]).await;
    let (code, lines) = bobb.ended().await;
    assert_eq!(
        (code, texts(&lines)),
        (Some(0), vec![json!("soon gone"), json!("gone too"), json!("to stay")])
    );
    assert_eq!(cli.run(&["pull", "bobb", "--after", "0"]).await.lines().count(), 1);
}

#[tokio::test]
async fn many_commands_at_once_wait_for_their_turn() {
    const MANY: usize = 15; // More than the ten short connections that a slot holds.
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let commands: Vec<[&str; 4]> = vec![["send", "alice", "bobb", "hello"]; MANY];
    join_all(commands.iter().map(|words| cli.run(words))).await;
    assert_eq!(cli.run(&["pull", "bobb"]).await.lines().count(), MANY);
}

#[tokio::test]
async fn a_command_that_finds_no_space_says_that_its_agent_runs_too_many() {
    let server = TestServer::start().await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    cli.run(&["call", "alice", "meta.ping"]).await;
    server.at_most_sessions(0).await;
    let device = fs::read_to_string(cli.home.join("device")).expect("the folder has a device");
    let token = text(&cli.tokens("alice")["access_token"]);
    let mut held = Vec::new();
    for _ in 0..10 {
        let socket = server.socket().await;
        let mut connect = hello(socket.nonce(), &token);
        at(device.trim(), "cli")(&mut connect);
        connect["options"] = json!({ "kind": "short" });
        socket.call("auth.connect", &connect).await;
        held.push(socket);
    }
    // It tries for up to a quarter of a minute, and then needs time on a crowded machine, too.
    let trying =
        timeout(Duration::from_secs(60), cli.command(&["call", "alice", "meta.ping"]).output()).await;
    let output = trying.expect("the command ends").expect("aund can be started");
    let refused = printed(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{refused}");
    assert!(refused.contains("has too many commands running") && refused.contains("4013"), "{refused}");
    // With one that ends it is free again.
    held.remove(0).close().await;
    cli.run(&["call", "alice", "meta.ping"]).await;
}
