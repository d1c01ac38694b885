//! Tasks as they change on the command line: `aund tasks watch`, and `create --wait`.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use super::HIGH_LIMITS;
use super::agent_cli::AgentCli;
use super::messages::forward;
use super::tasks::{as_json, create};
use crate::support::TestServer;

#[tokio::test]
async fn a_task_is_watched_until_it_has_ended() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let task = create(&cli, &["--title", "Review"]).await;
    let watched = cli.start_until(&["tasks", "watch", &task, "--as", "alice"], "is watched").await;
    // Another one beside it replaces nobody.
    let also = cli.start_until(&["tasks", "watch", &task, "--as", "bobb", "--json"], "is watched").await;
    let again = cli.start_until(&["tasks", "watch", &task, "--as", "alice"], "is watched").await;
    cli.run(&["tasks", "accept", &task, "--as", "bobb"]).await;
    cli.run(&["tasks", "input", &task, "Which \u{1b}[2Jone?", "--ask", "--as", "bobb"]).await;
    cli.run(&["tasks", "input", &task, "Number 7", "--as", "alice"]).await;
    cli.run(&["tasks", "complete", &task, "--text", "review=No risk", "--as", "bobb"]).await;

    let (alice, bobb) = (cli.name("alice"), cli.name("bobb"));
    let expected = [
        format!("submitted       {bobb}  Review"),
        format!("working         by {bobb}"),
        format!("input_required  {bobb} asks: Which \\u001b[2Jone?"),
        format!("working         {alice} says: Number 7"),
        format!("completed       artifact review (text/plain, 7 bytes) by {bobb}"),
        "    No risk".to_owned(),
        format!("completed       by {bobb}"),
    ];
    for watcher in [watched, again] {
        let (code, lines) = watcher.ended().await;
        assert_eq!((code, lines.len()), (Some(0), expected.len()), "{lines:?}");
        for (line, expected) in lines.iter().zip(&expected) {
            assert!(line.ends_with(expected), "{expected:?} in {lines:?}");
        }
    }
    let (code, lines) = also.ended().await;
    assert_eq!(code, Some(0));
    let frames: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let versions: Vec<_> = frames.iter().skip(1).map(|frame| frame["params"]["version"].clone()).collect();
    assert_eq!((&frames[0]["status"], frames[0]["version"].as_i64()), (&json!("submitted"), Some(1)));
    assert_eq!(versions, [2, 3, 4, 5, 5], "{lines:?}");

    let late = cli.run(&["tasks", "watch", &task, "--as", "bobb"]).await;
    let completed = format!("completed       {bobb}  Review\n");
    assert!(late.contains(&completed) && late.ends_with("    No risk\n"), "{late}");
}

#[tokio::test]
async fn a_watcher_that_missed_something_reads_the_task_again() {
    let mut server = TestServer::start().await;
    let upstream = Arc::new(AtomicU16::new(server.tls_port));
    let mut cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    cli.gateway = forward(upstream.clone()).await;
    let task = create(&cli, &["--title", "Review"]).await;
    let mut watched = cli.start_until(&["tasks", "watch", &task, "--as", "alice"], "is watched").await;
    server.restart().await;
    cli.gateway = format!("127.0.0.1:{}", server.tls_port);
    cli.run(&["tasks", "accept", &task, "--as", "bobb"]).await;
    cli.run(&["tasks", "fail", &task, "--reason", "no time", "--as", "bobb"]).await;
    // Only now does the watcher find the server again.
    upstream.store(server.tls_port, Ordering::Relaxed);
    watched.wait_for_note("trying again").await;
    let (code, lines) = watched.ended().await;
    assert_eq!(code, Some(0), "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with("submitted       bobb  Review"), "{lines:?}");
    assert!(lines[1].ends_with("failed          bobb  Review  no time"), "{lines:?}");
}

#[tokio::test]
async fn whoever_waits_learns_how_it_ended() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let words = ["tasks", "create", "--as", "alice", "--to", "bobb", "--input", "@patch.txt", "--wait"];
    fs::write(cli.folder.join("patch.txt"), "review\nthis\n").unwrap();
    for (end, code) in [("complete", 0), ("reject", 1)] {
        let waiting = cli.start_until(&words, "is watched").await;
        let submitted = ["tasks", "list", "--as", "bobb", "--status", "submitted"];
        let task =
            as_json(&cli, &submitted).await["items"][0]["task_id"].as_str().expect("a task").to_owned();
        let input = as_json(&cli, &["tasks", "show", &task, "--as", "bobb"]).await["input"].clone();
        assert_eq!(input, json!({ "type": "text", "content": "review\nthis" }));
        if end == "complete" {
            cli.run(&["tasks", "accept", &task, "--as", "bobb"]).await;
            cli.run(&["tasks", "complete", &task, "--as", "bobb"]).await;
        } else {
            cli.run(&["tasks", "reject", &task, "--reason", "busy", "--as", "bobb"]).await;
        }
        let (ended, lines) = waiting.ended().await;
        assert_eq!(ended, Some(code), "{lines:?}");
        assert!(lines[0].starts_with("submitted to "), "{lines:?}");
    }
}
