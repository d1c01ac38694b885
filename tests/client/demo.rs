//! What the demo shows.

use std::fs;

use tokio::process::Command;

use super::HIGH_LIMITS;
use super::agent_cli::AgentCli;
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
