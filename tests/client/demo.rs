//! What the demo shows, on the terminal and as a page.

use std::fs;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

use super::HIGH_LIMITS;
use super::agent_cli::AgentCli;
use super::identity::caller;
use crate::support::{TestServer, printed, until, within};

#[tokio::test]
async fn the_demo_runs_to_its_end_with_a_server_of_its_own_and_leaves_nothing() {
    let here = tempfile::tempdir().unwrap();
    let mut demo = Command::new(crate::support::program());
    demo.args(["demo", "--gateway", "127.0.0.1:1"]).env("TMPDIR", here.path()).current_dir(here.path());
    let output = within("the demo", demo.kill_on_drop(true).output()).await.unwrap();
    let shown = printed(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}\n{}", printed(&output.stderr));
    assert!(shown.contains("starts a temporary one"), "{shown}");
    shows_every_step(&shown);
    let left = || async { (fs::read_dir(here.path()).unwrap().count() == 0).then_some(()) };
    until("the demo's folder is gone", left).await;
}

#[tokio::test]
async fn the_demo_uses_a_server_that_is_there() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::new(&server);
    let mut demo = Command::new(crate::support::program());
    demo.args(["demo", "--plain", "--gateway", &cli.gateway]).current_dir(&cli.folder);
    let output = within("the demo", demo.kill_on_drop(true).output()).await.unwrap();
    let shown = printed(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}\n{}", printed(&output.stderr));
    assert!(shown.contains(&format!("the gateway at {}", cli.gateway)), "{shown}");
    shows_every_step(&shown);
}

fn shows_every_step(shown: &str) {
    let mut rest = shown;
    for (picture, what) in [
        ("alice ──▶ gateway", "auth.create_aid"),
        ("gateway ◀── bobb", "auth.connect"),
        ("alice ──▶ gateway", "message.query_online"),
        ("alice ──▶ gateway", "message.send"),
        ("gateway ◀── bobb", "message.ack"),
        ("gateway ◀── bobb", "message.send"),
        ("alice ──▶ gateway", "message.recall "),
        ("gateway ◀── bobb", "message.pull"),
        ("gateway ◀── bobb", "PUT /agent.md"),
        ("alice ──▶ gateway", "search.query"),
        ("alice ◀── gateway", "search.query ok  {items: [{"),
        ("alice ──▶ gateway", "task.create  {to: \"bobb\", input: {content: \"Please review my patch\""),
        ("gateway ◀── bobb", "task.accept"),
        ("gateway ◀── bobb", "task.request_input"),
        ("alice ──▶ gateway", "task.send_input"),
        ("gateway ◀── bobb", "task.complete  {artifacts: [{content: \"No risk.\""),
        ("alice ──▶ gateway", "task.get"),
        ("alice ◀── gateway", "task.get ok"),
        ("gateway ◀── bobb", "DELETE /agent.md"),
    ] {
        let found = rest.lines().find(|line| line.contains(picture) && line.contains(what));
        let line = found.unwrap_or_else(|| panic!("{picture} {what} is not where it should be in\n{shown}"));
        rest = &rest[rest.find(line).expect("it is a line of it")..];
    }
    for event in ["event/message.received", "event/message.ack", "event/message.recalled"] {
        assert!(shown.contains(event), "{event} in\n{shown}");
    }
    for (picture, event, status) in [
        ("gateway ──▶ bobb", "event/task.updated", "submitted"),
        ("alice ◀── gateway", "event/task.updated", "working"),
        ("alice ◀── gateway", "event/task.updated", "Which patch?"),
        ("gateway ──▶ bobb", "event/task.updated", "Number 7"),
        ("alice ◀── gateway", "event/task.artifact", "No risk."),
        ("alice ◀── gateway", "event/task.completed", "completed"),
    ] {
        let is_it = |line: &str| [picture, event, status].iter().all(|part| line.contains(part));
        assert!(shown.lines().any(is_it), "{picture} {event} {status} in\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 120) && !shown.contains('\u{1b}'), "{shown}");
    assert!(shown.contains("messages between two agents, and a task that one did for the other"), "{shown}");
}

/// `aund demo --web` that runs.
struct PageDemo {
    child: Child,
    port: u16,
    token: String,
    agent: String,
    /// A program whose output nobody takes ends.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl PageDemo {
    async fn start(command: &mut Command) -> PageDemo {
        let mut child =
            command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("aund can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (mut agent, mut said) = (String::new(), String::new());
        loop {
            let line = within("the address of the page", lines.next_line()).await.expect("text");
            let line = line.unwrap_or_else(|| panic!("the demo ended after {said}"));
            if let Some(aid) = line.strip_prefix("The page speaks for ") {
                agent = aid.trim_end_matches('.').to_owned();
            }
            if let Some(address) = line.trim().strip_prefix("http://127.0.0.1:") {
                let (port, token) = address.split_once("/#token=").expect("an address with a token");
                return PageDemo {
                    child,
                    port: port.parse().expect("a port"),
                    token: token.to_owned(),
                    agent,
                    _lines: lines,
                };
            }
            said += &format!("{line}\n");
        }
    }

    /// Status, head and body of the answer to one request.
    async fn ask(&self, request: &str, host: &str, headers: &str) -> (u16, String, String) {
        let stream = within("the page", TcpStream::connect(("127.0.0.1", self.port))).await;
        let mut stream = stream.expect("the page is served");
        let head = format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.expect("it reads");
        let mut text = String::new();
        within("an answer", stream.read_to_string(&mut text)).await.expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    async fn newer_token(&self, old: &str) -> (u16, Value) {
        let headers = format!("Authorization: Bearer {old}\r\nContent-Length: 0\r\n");
        let (status, _, body) = self.ask("POST /token", &format!("localhost:{}", self.port), &headers).await;
        (status, serde_json::from_str(&body).expect("JSON"))
    }
}

#[tokio::test]
async fn the_page_is_served_to_this_machine_under_its_own_name_only() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::new(&server);
    let demo = PageDemo::start(&mut cli.command(&["demo", "--web"])).await;
    let own = format!("127.0.0.1:{}", demo.port);

    let (status, head, page) = demo.ask("GET /", &own, "").await;
    assert_eq!(status, 200);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("src=\"main.js\""), "{page}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header} in {head}");
    }
    let (status, head, _) = demo.ask("GET /main.js", &own, "").await;
    assert!(status == 200 && head.contains("content-type: text/javascript"), "{head}");

    // Whatever name a site of somebody else gives to 127.0.0.1, and whatever it asks from its own origin.
    let rebound = format!("evil.example:{}", demo.port);
    for (host, headers) in [(rebound.as_str(), ""), (&own, "Origin: https://evil.example\r\n")] {
        for request in ["GET /", "GET /api/v1/agent/history", "POST /token"] {
            let headers = format!("{headers}Authorization: Bearer {}\r\n", demo.token);
            assert_eq!(demo.ask(request, host, &headers).await.0, 403, "{request} {host} {headers}");
        }
    }
    for request in ["GET /rpc", "POST /rpc", "GET /api/v1/agent/../runs", "GET /page/main.js", "DELETE /"] {
        assert_eq!(demo.ask(request, &own, "").await.0, 404, "{request}");
    }
    assert_eq!(demo.ask("DELETE /api/v1/agent/history", &own, "").await.0, 405);
    let large = "Content-Length: 20000000\r\n";
    assert_eq!(demo.ask("POST /api/v1/agent/attachments", &own, large).await.0, 413);
}

#[tokio::test]
async fn the_page_gets_newer_tokens_for_its_own_and_keeps_its_agent() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::new(&server);
    let demo = PageDemo::start(&mut cli.command(&["demo", "--web"])).await;
    let (status, answer) = demo.newer_token(&demo.token).await;
    assert_eq!(status, 200, "{answer}");
    let newer = answer["access_token"].as_str().expect("a token").to_owned();
    assert_ne!(newer, demo.token);
    let (_, same) = demo.newer_token(&demo.token).await;
    assert_eq!(same["access_token"], newer.as_str(), "another tab with the old one gets the same");
    for wrong in ["", "not-a-token"] {
        assert_eq!(demo.newer_token(wrong).await.0, 401, "{wrong:?}");
    }
    let bob = server.agent("bobby").await;
    assert_eq!(caller(&server, &bob, &newer).await, demo.agent.as_str());

    // Stopped as a person stops it; the next one speaks for the same agent.
    let pid = demo.child.id().expect("it runs").to_string();
    let mut child = demo.child;
    assert!(within("kill", Command::new("kill").args(["-INT", &pid]).status()).await.unwrap().success());
    assert_eq!(within("the end", child.wait()).await.unwrap().code(), Some(0));
    let again = PageDemo::start(&mut cli.command(&["demo", "--web"])).await;
    assert_eq!(again.agent, demo.agent);
    assert_ne!(again.token, demo.token);
}

#[tokio::test]
async fn a_page_with_a_server_of_its_own_leaves_nothing() {
    let here = tempfile::tempdir().unwrap();
    let mut command = Command::new(crate::support::program());
    command.args(["demo", "--web", "--gateway", "127.0.0.1:1", "--home"]).arg(here.path().join("home"));
    command.env("TMPDIR", here.path()).current_dir(here.path());
    let demo = PageDemo::start(&mut command).await;
    assert!(demo.agent.ends_with(".agents.localhost"), "{}", demo.agent);
    let pid = demo.child.id().expect("it runs").to_string();
    let mut child = demo.child;
    assert!(within("kill", Command::new("kill").args(["-INT", &pid]).status()).await.unwrap().success());
    assert_eq!(within("the end", child.wait()).await.unwrap().code(), Some(0));
    let left = || async { (fs::read_dir(here.path()).unwrap().count() == 0).then_some(()) };
    until("the demo's folder is gone", left).await;
}
