//! No free space under a runner: what it says waits until there is some again, and nothing is lost, said twice or claimed to be done.

use serde_json::json;

use super::local::{LocalRun, WAITS, go_on, nothing_is_left, runners, scripted, server};
use super::process::said_in;
use crate::gateway::free_space::restart;
use crate::runs::client::{assert_contiguous, types};
use crate::runs::kill::answers;
use crate::support::{on_sqlite, split, until};

#[tokio::test]
async fn without_free_space_a_turn_goes_on_and_is_told_when_there_is_some() {
    let mut manager = server(&scripted("waits", WAITS));
    let work = LocalRun::begin_with(&manager, "x", |new| new["backendProfile"] = json!("waits")).await;
    work.said("begun").await;
    let asking = LocalRun::begin(&manager, "/ask").await;
    let asked = || async { types(&asking.events().await).contains(&"approval_request").then_some(()) };
    until("it asks", asked).await;
    let (back_end, idle) = (work.back_end.clone(), work.back_end.run().await);
    let waiting = back_end.turn(&idle, "x").await;

    restart(&mut manager.server, true).await;
    manager.dial_again();
    answers(&back_end).await;
    // Nothing new begins.
    let new = (503, "infra-failed");
    let refused = back_end.api.refused("POST", "/runs", &back_end.new_run(), new).await;
    assert_eq!(
        (&refused["details"]["retryable"], &refused["details"]["reason"]),
        (&json!(true), &json!("no_space"))
    );
    let turn = json!({ "type": "turn", "payload": { "prompt": "x" } });
    back_end.api.refused("POST", &format!("/runs/{idle}/commands"), &turn, new).await;
    let job = json!({ "commandId": waiting });
    back_end.api.refused("POST", &format!("/runs/{idle}/runner-jobs"), &job, new).await;

    // What is under way does not end with what could not be stored.
    let before = manager.server.metric_of_all("aund_store_no_space_total").await;
    go_on(&runners(&manager), &work.run);
    let refused =
        || async { (manager.server.metric_of_all("aund_store_no_space_total").await > before).then_some(()) };
    until("what the runner says is refused", refused).await;
    let read = back_end.read_command(&work.run, &work.command).await;
    assert!(read["terminalStatus"].is_null() && read["failureKind"].is_null(), "{read}");
    // A cancel is accepted, and told when what the turn has said before is stored.
    asking.cancel().await;

    restart(&mut manager.server, false).await;
    manager.dial_again();
    answers(&back_end).await;
    assert_eq!(work.reply().await, "begun and done");
    let events = work.events().await;
    assert_contiguous(&events);
    assert_eq!(said_in(&events), "begun", "each part was told once");
    work.job_in("succeeded").await;
    assert_eq!(asking.ended().await["state"], "cancelled");
    for run in [&work, &asking] {
        nothing_is_left(&manager, &run.job).await;
    }
}

/// A file cannot grow any more, neither those of the store nor those of the back end.
#[tokio::test]
async fn on_a_full_disk_a_turn_waits_and_a_back_end_that_cannot_write_has_failed() {
    if !on_sqlite() || split() {
        return;
    }
    const PARTS: usize = 100;
    // A message has at most as many bytes as a file may have left.
    let talks = r#"read -r line; part=$(head -c 16000 /dev/zero | tr '\0' x); n=0
        while [ $n -lt 100 ]; do n=$((n+1)); printf '{"type":"text","itemId":"1","delta":"%s%s\\n"}\n' $part $n; done
        printf '{"type":"message","itemId":"1","text":"done"}\n{"type":"done","status":"completed"}\n'; read -r line"#;
    let writes = r#"read -r line; printf '{"type":"text","itemId":"1","delta":"begun"}\n'
        if head -c 3000000 /dev/zero 2>/dev/null >large; then end='"completed"'; else end='"failed","failureKind":"infra-failed","message":"no space"'; fi
        printf '{"type":"done","status":%s}\n' "$end"; read -r line"#;
    let mut manager = server(&format!("{}{}", scripted("talks", talks), scripted("writes", writes)));
    manager.server.kill();
    manager.server.start_on_a_full_disk(1024);
    manager.dial_again();
    let writing = LocalRun::begin_with(&manager, "x", |new| new["backendProfile"] = json!("writes")).await;
    let ended = writing.ended().await;
    assert_eq!(
        (&ended["state"], &ended["failureKind"], &ended["failureMessage"]),
        (&json!("failed"), &json!("infra-failed"), &json!("no space"))
    );
    writing.job_in("succeeded").await;
    let talking = LocalRun::begin_with(&manager, "x", |new| new["backendProfile"] = json!("talks")).await;
    let full = || async {
        let turn = json!({ "type": "turn", "payload": { "prompt": "y".repeat(100_000) } });
        let path = format!("/runs/{}/commands", writing.run);
        let answer = writing.back_end.api.call("POST", &path, &turn).await;
        assert!(answer.status == 201 || answer.failure_kind() == "infra-failed", "{}", answer.body);
        (answer.status == 503).then_some(answer.body)
    };
    let refused = until("the disk is full", full).await;
    assert_eq!(refused["details"]["retryable"], true, "{refused}");
    assert_eq!(manager.server.get("/health").await.status, 200, "the server lives on");
    let read = talking.back_end.read_command(&talking.run, &talking.command).await;
    assert!(read["terminalStatus"].is_null(), "{read}");

    manager.server.kill();
    manager.server.start_again();
    manager.dial_again();
    answers(&talking.back_end).await;
    assert_eq!(talking.reply().await, "done");
    let events = talking.events().await;
    assert_contiguous(&events);
    let said = said_in(&events);
    let numbers: Vec<&str> = said.lines().map(|line| line.trim_start_matches('x')).collect();
    assert_eq!(numbers, (1..=PARTS).map(|n| n.to_string()).collect::<Vec<_>>(), "each part was told once");
    talking.job_in("succeeded").await;
    for run in [&talking, &writing] {
        nothing_is_left(&manager, &run.job).await;
    }
}
