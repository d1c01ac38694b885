//! The frames of a conversation: from the log, the same for everybody who reads them.

use super::support::{FrontEnd, THREAD, input, kinds, task};
use serde_json::{Value, json};

#[tokio::test]
async fn a_run_is_shown_from_its_start_to_its_end_and_again_behind_any_frame() {
    let front = FrontEnd::open().await;
    let one = front.run(input("run-1", "hello")).await;
    let two = front.run(input("run-2", "more")).await;
    let runner = front.runner().await;
    front.answer(&runner, &task(&one), "first").await;
    front.answer(&runner, &task(&two), "second").await;
    let frames = front.frames("runId=run-2", None).await;
    assert_eq!(
        kinds(&frames),
        [
            "RUN_STARTED",
            "STEP_STARTED",
            "STEP_FINISHED",
            "STEP_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "STEP_FINISHED",
            "RUN_FINISHED",
        ],
    );
    assert_eq!((&frames[0].1["threadId"], &frames[0].1["runId"]), (&json!(THREAD), &json!("run-2")));
    assert_eq!(frames[5].1["delta"], "second");
    for (at, (id, _)) in frames.iter().enumerate() {
        let rest = front.frames("runId=run-2", Some(id)).await;
        assert_eq!(rest, frames[at + 1..], "behind {id}");
    }
    // What cannot be read as the name of a frame is none.
    assert_eq!(front.frames("runId=run-2", Some("5")).await, frames);
    let history = front.ok("agui.history", json!({})).await;
    assert_eq!(history["messages"][3]["id"], frames[4].1["messageId"], "{history}");
}

#[tokio::test]
async fn a_stream_of_the_conversation_goes_on_over_its_runs_until_nothing_comes() {
    let front = FrontEnd::open().await;
    let one = front.run(input("run-1", "hello")).await;
    let runner = front.runner().await;
    front.answer(&runner, &task(&one), "first").await;
    let all = front.frames("runId=run-1", None).await;
    let two = front.run(input("run-2", "more")).await;
    front.answer(&runner, &task(&two), "second").await;
    let both = front.frames("idle_limit=1", Some(&all[0].0)).await;
    let begun: Vec<&Value> = both
        .iter()
        .filter(|(_, data)| data["type"] == "RUN_STARTED")
        .map(|(_, data)| &data["runId"])
        .collect();
    assert_eq!(begun, ["run-2"], "{both:?}");
    assert_eq!(both[..all.len() - 1], all[1..]);
    // Without a name it begins with the active run, and there is none.
    assert_eq!(front.frames("idle_limit=1", None).await, []);
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_it_began_has_its_end() {
    let front = FrontEnd::open().await;
    front.run(input("run-1", "hello")).await;
    front.ok("agui.cancel", json!({ "threadId": THREAD, "runId": "run-1" })).await;
    let frames = front.frames("runId=run-1", None).await;
    assert_eq!(kinds(&frames).last(), Some(&"RUN_ERROR"), "{frames:?}");
    assert_eq!(
        (&frames.last().unwrap().1["code"], &frames.last().unwrap().1["message"]),
        (&json!("RUN_CANCELED"), &json!("run canceled by user"))
    );
    let mut modern = input("run-2", "hello");
    modern["protocolVersion"] = json!("1.0");
    front.run(modern).await;
    front.ok("agui.cancel", json!({ "threadId": THREAD, "runId": "run-2" })).await;
    let frames = front.frames("runId=run-2", None).await;
    assert_eq!(frames.last().unwrap().1["outcome"], json!({ "type": "cancelled" }), "{frames:?}");
}

#[tokio::test]
async fn what_is_not_there_is_said_so() {
    let front = FrontEnd::open().await;
    front.run(input("run-1", "hello")).await;
    for (path, status, detail) in [
        (format!("/api/v1/agent/runs/{THREAD}/events?runId=other"), 404, "run not found"),
        (
            "/api/v1/agent/runs/550e8400-e29b-41d4-a716-44665544ffff/events".to_owned(),
            404,
            "thread not found",
        ),
        ("/api/v1/agent/runs/nothing/events".to_owned(), 404, "thread not found"),
        (
            format!("/api/v1/agent/runs/{THREAD}/events?idle_limit=0"),
            422,
            "idle_limit must be between 1 and 3600",
        ),
    ] {
        let answer = front.runs.get(&front.alice, &path).await;
        assert_eq!((answer.status, answer.json()["detail"].as_str()), (status, Some(detail)), "{path}");
    }
}
