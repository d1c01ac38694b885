//! The crate `client`, as a program uses it: the agent of the README, and what happens to a session when the server goes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ::client::{Client, ClientBuilder, Error, Incoming};
use proto_schemas::requests::meta;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::HIGH_LIMITS;
use crate::support::agent::aid;
use crate::support::domain::TestDomain;
use crate::support::{ISSUER, TestServer, within};

/// A server on an address that stays when it is started again.
fn server_that_stays() -> TestServer {
    let TestDomain { address, .. } = TestDomain::new("library");
    let mut server = TestDomain { issuer: ISSUER.to_owned(), address }.prepared("");
    server.start_again();
    server
}

fn gateway(server: &TestServer) -> String {
    format!("{}:{}", server.host(), server.tls_port)
}

/// A client of this server, whose root is trusted on first use.
fn builder(server: &TestServer, home: &TempDir, name: &str) -> ClientBuilder {
    Client::builder(&server.aid(name)).gateway(gateway(server)).home(home.path())
}

async fn connected(server: &TestServer, home: &TempDir, name: &str) -> Client {
    let builder = builder(server, home, name);
    within("registration", builder.register()).await.expect("the name is free");
    within("a session", builder.connect()).await.expect("a registered agent can connect")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is inside the workspace")
        .to_owned()
}

#[test]
fn the_agent_of_the_readme_is_an_example_that_is_built() {
    let example = fs::read_to_string(repository().join("client/examples/readme.rs")).expect("the example");
    let readme = fs::read_to_string(repository().join("README.md")).expect("the README");
    assert!(readme.contains(&format!("```rust\n{example}```\n")), "README.md has another text");
    assert!(example.lines().count() < 30, "it is short");
}

#[tokio::test]
async fn the_agent_of_the_readme_receives_after_the_server_was_killed() {
    let mut server = server_that_stays();
    // The page has registered these by then.
    for name in ["alice", "bobb"] {
        server.register(name).await;
    }
    let example = Path::new(env!("CARGO_BIN_EXE_aund")).with_file_name("examples").join("readme");
    assert!(example.exists(), "{} is built by cargo build -p client --examples", example.display());
    let mut command = Command::new(example);
    command.arg(gateway(&server)).current_dir(server.beside("")).stdout(Stdio::piped()).kill_on_drop(true);
    let mut agent = command.spawn().expect("the example can be started");
    let mut lines = BufReader::new(agent.stdout.take().expect("a pipe")).lines();
    let first = within("the first message", lines.next_line()).await.expect("it prints");
    assert_eq!(first, Some(format!("{}: Hello Dave!", aid("carol"))));

    server.kill();
    server.start_again();
    let frank = server.agent("frank").await;
    let payload = json!({ "type": "text", "text": "Are you still there?" });
    frank.call("message.send", &json!({ "to": aid("dave"), "payload": payload })).await;
    let second = within("the message after the restart", lines.next_line()).await.expect("it prints");
    assert_eq!(second, Some(format!("{}: Are you still there?", aid("frank"))));
}

#[tokio::test]
async fn each_message_comes_once_and_in_order_whatever_happens_to_the_server() {
    let mut server = server_that_stays();
    let home = tempfile::tempdir().unwrap();
    let (alice, bobb) = (connected(&server, &home, "alice").await, connected(&server, &home, "bobb").await);
    let mut messages = bobb.messages();
    for round in 0..3 {
        for part in 0..3 {
            let text = format!("{round}.{part}");
            let sent = within("a send", alice.send_text(bobb.aid(), &text)).await;
            sent.expect("a send waits for the connection and is safe to repeat");
            if part != 1 {
                continue;
            }
            // The message before this one was not asked for yet: an event or a pull brings it.
            if round == 1 {
                server.restart().await
            } else {
                server.kill()
            }
            if round != 1 {
                server.start_again();
            }
        }
        for part in 0..3 {
            let message = within("a message", messages.next()).await.expect("the client lives");
            assert_eq!(message.text(), format!("{round}.{part}"));
            assert_eq!(message.seq(), Some(round * 3 + part + 1));
            assert_eq!(message.parsed().expect("it has the form of its schema").from, aid("alice"));
        }
    }
    messages.acknowledge().await.expect("what was read can be acknowledged");
    drop(messages);
    alice.send_text(bobb.aid(), "the last").await.expect("a message can be sent");
    let again = within("a message", bobb.messages().next()).await.expect("the client lives");
    assert_eq!(again.text(), "the last", "what was acknowledged does not come again");
    let whole = within("a message", bobb.messages_after(7).next()).await.expect("the client lives");
    assert_eq!(whole.text(), "2.1", "a cursor of the program's own");
}

#[tokio::test]
async fn a_client_that_was_replaced_says_so_and_stays_away() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let home = tempfile::tempdir().unwrap();
    let first = connected(&server, &home, "alice").await;
    let (mut events, mut messages) = (first.events(), first.messages());
    let caught_up = within("the inbox", messages.next_incoming()).await;
    assert!(matches!(caught_up, Ok(Incoming::CaughtUp)), "{caught_up:?}");

    let second = builder(&server, &home, "alice").connect().await.expect("the newer one is let in");
    let event = within("an event", events.next()).await.expect("it is told");
    assert_eq!((event.method.as_str(), &event.params["code"]), ("event/gateway.disconnect", &json!(4009)));
    for _ in 0..2 {
        let end = within("the end", events.next()).await;
        assert!(matches!(end, Err(Error::Closed { code: 4009, .. })), "{end:?}");
    }
    let call = first.request(&meta::Ping {}).await;
    assert!(matches!(call, Err(Error::Closed { code: 4009, .. })), "{call:?}");
    let pong = second.request(&meta::Ping {}).await.expect("the newer one is connected");
    assert!(pong.pong);

    second.close().await;
    assert!(matches!(second.call("meta.ping", &json!({})).await, Err(Error::ClientClosed)));
}

#[tokio::test]
async fn a_refusal_is_an_error_with_its_code_and_leaves_the_session_as_it_is() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let home = tempfile::tempdir().unwrap();
    let unknown = builder(&server, &home, "nobody").connect().await.err().expect("there is no key");
    assert!(unknown.to_string().contains("not registered"), "{unknown}");
    let alice = connected(&server, &home, "alice").await;
    let refused = alice.call("meta.dance", &json!({})).await.expect_err("there is no such method");
    assert_eq!(refused.code(), Some(-32601));
    assert!(alice.request(&meta::Ping {}).await.is_ok());
    let away = Client::builder(&server.aid("alice")).gateway("127.0.0.1:1");
    assert!(matches!(away.home(home.path().join("away")).register().await, Err(Error::Unreachable(..))));
}
