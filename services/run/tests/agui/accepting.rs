//! What is accepted is stored, once.

use super::support::{FrontEnd, THREAD, agent, input, task};
use crate::settings::{FrontEndMode, FrontEndSettings};
use serde_json::{Value, json};

#[tokio::test]
async fn a_run_is_stored_with_its_conversation_and_its_message_and_the_same_input_is_the_same_run() {
    let front = FrontEnd::open().await;
    let first = front.run(input("run-1", "hello")).await;
    assert_eq!(
        (&first["threadId"], &first["runId"], &first["created"]),
        (&json!(THREAD), &json!("run-1"), &json!(true))
    );
    let again = front.run(input("run-1", "hello")).await;
    assert_eq!((task(&again), &again["created"]), (task(&first), &json!(false)));
    let snake = json!({
        "thread_id": THREAD, "run_id": "run-1", "forwarded_props": { "runtime_mode": "chat" },
        "messages": [{ "id": "msg-run-1", "role": "user", "content": "hello" }],
    });
    assert_eq!(task(&front.run(snake).await), task(&first), "in the other spelling");
    assert_eq!(front.run_refused(input("run-1", "other")).await, ("runId already used".to_owned(), 409));
    let second = front.run(input("run-2", "more")).await;
    assert!(task(&second) != task(&first) && second["created"] == false);
    let history = front.ok("agui.history", json!({ "threadId": THREAD })).await;
    let said: Vec<&Value> =
        history["messages"].as_array().unwrap().iter().map(|row| &row["content"]).collect();
    assert_eq!(said, ["hello", "more"], "{history}");
    // Both are turns of one run of the manager, which is open.
    let operator = crate::tests::support::admin();
    let runs = front.ask(&operator, "run.list", json!({ "open": true })).await.unwrap();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
}

#[tokio::test]
async fn runs_that_come_at_once_are_one_conversation_and_each_is_stored_once() {
    let front = FrontEnd::open().await;
    let inputs: Vec<Value> = (0..16).map(|n| input(&format!("run-{}", n / 2), "hello")).collect();
    let calls = inputs.into_iter().map(|input| front.run(input));
    let accepted = futures_util::future::join_all(calls).await;
    let tasks: std::collections::BTreeSet<String> = accepted.iter().map(task).collect();
    assert_eq!(tasks.len(), 8, "{accepted:?}");
    let history = front.ok("agui.history", json!({})).await;
    assert_eq!(history["messages"].as_array().unwrap().len(), 8, "{history}");
}

#[tokio::test]
async fn a_conversation_belongs_to_who_began_it() {
    let front = FrontEnd::open().await;
    front.run(input("run-1", "hello")).await;
    let bob = agent("bobb.aid.pub");
    for (method, params) in [
        ("agui.run", json!({ "input": input("run-9", "mine?") })),
        ("agui.history", json!({ "threadId": THREAD })),
        ("agui.cancel", json!({ "threadId": THREAD, "runId": "run-1" })),
    ] {
        let error = front.ask(&bob, method, params).await.expect_err(method);
        assert_eq!(
            (error.to_string(), error.http_status().as_u16()),
            ("forbidden".to_owned(), 403),
            "{method}"
        );
    }
    let own = front.ask(&bob, "agui.history", json!({})).await.unwrap();
    assert_eq!((&own["threadId"], &own["day"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn at_most_twenty_runs_wait_and_a_cancelled_one_makes_space() {
    let front = FrontEnd::open().await;
    for n in 0..21 {
        front.run(input(&format!("run-{n}"), "hello")).await;
    }
    assert_eq!(front.run_refused(input("run-21", "hello")).await.1, 429);
    let cancel = |run: &str| json!({ "threadId": THREAD, "runId": run });
    let cancelled = front.ok("agui.cancel", cancel("run-7")).await;
    assert_eq!(cancelled, json!({ "threadId": THREAD, "runId": "run-7", "accepted": true }));
    front.ok("agui.cancel", cancel("run-7")).await;
    front.run(input("run-21", "hello")).await;
    assert_eq!(front.refused("agui.cancel", cancel("run-99")).await, ("run not found".to_owned(), 404));
    // Without a name it is the first one that has not ended.
    assert_eq!(front.ok("agui.cancel", json!({ "threadId": THREAD })).await["runId"], "run-0");
}

#[tokio::test]
async fn a_turn_brings_what_its_mode_is_configured_with_and_the_zone_in_its_order() {
    let mode =
        |tool: &str| FrontEndMode { tools: vec![tool.to_owned()], context: vec![format!("you may {tool}")] };
    let agui =
        FrontEndSettings { chat: mode("talk"), automation: mode("work"), ..FrontEndSettings::default() };
    let front = FrontEnd::with(agui).await;
    front.run(input("run-0", "hello")).await;
    front.ok("agui.set_profile", json!({ "timezone": "Asia/Tokyo" })).await;
    let mut automation = input("run-1", "hello");
    automation["forwardedProps"]["runtime_mode"] = json!("automation");
    automation["tools"] = json!([{ "name": "of_the_front_end", "description": "x", "parameters": {} }]);
    front.run(automation).await;
    let mut far = input("run-2", "hello");
    far["forwardedProps"]["client_time"] = json!({
        "device_timezone": "America/Los_Angeles", "client_now_iso": "2026-03-16T09:12:33-07:00", "client_epoch_ms": 1_773_658_353_000_i64,
    });
    front.run(far).await;
    let rows: Vec<String> = sqlx::query_scalar("SELECT payload FROM run_command ORDER BY seq")
        .fetch_all(front.runs.run.store.db().read())
        .await
        .unwrap();
    let turns: Vec<Value> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    let of = |n: usize, name: &str| turns[n][name].clone();
    assert_eq!(
        [of(0, "timezone"), of(1, "timezone"), of(2, "timezone")],
        ["UTC", "Asia/Tokyo", "America/Los_Angeles"]
    );
    assert_eq!(
        (of(0, "mode"), of(0, "tools"), of(0, "context")),
        (json!("chat"), json!(["talk"]), json!(["you may talk"]))
    );
    assert_eq!(
        (of(1, "mode"), of(1, "tools")),
        (json!("automation"), json!(["work"])),
        "those of the input are only kept"
    );
}

#[tokio::test]
async fn an_agent_has_a_limited_number_of_conversations_and_bytes() {
    let agui = FrontEndSettings { threads: 2, kept_bytes: 60_000, ..FrontEndSettings::default() };
    let front = FrontEnd::with(agui).await;
    let of = |n: u32| {
        let mut input = input("run-1", "hello");
        input["threadId"] = json!(format!("550e8400-e29b-41d4-a716-44665544000{n}"));
        input
    };
    front.run(of(1)).await;
    front.run(of(2)).await;
    let (sentence, status) = front.run_refused(of(3)).await;
    assert_eq!((sentence.as_str(), status), ("an agent can have at most 2 threads", 429));
    let mut large = of(1);
    large["runId"] = json!("run-2");
    large["state"] = json!("x".repeat(70_000));
    assert_eq!(front.run_refused(large).await.1, 429, "more than an agent may keep");
    let mut small = of(1);
    small["runId"] = json!("run-3");
    front.run(small).await;
}

#[tokio::test]
async fn a_refused_first_turn_leaves_nothing() {
    let front = FrontEnd::with(FrontEndSettings { kept_bytes: 600, ..FrontEndSettings::default() }).await;
    assert_eq!(front.run_refused(input("run-1", &"x".repeat(5000))).await.1, 429);
    for table in ["agui_thread", "agui_run", "agui_message", "run", "run_command", "run_session"] {
        let text = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        let rows: i64 = sqlx::query_scalar(text).fetch_one(front.runs.run.store.db().read()).await.unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_in_another_run_of_the_manager_when_its_own_has_ended() {
    let front = FrontEnd::open().await;
    let first = front.run(input("run-1", "hello")).await;
    let runner = front.runner().await;
    front.answer(&runner, &task(&first), "hi").await;
    let before = front.run_of_thread().await;
    let operator = crate::tests::support::admin();
    front.ask(&operator, "run.cancel", json!({ "runId": before })).await.unwrap();
    let second = front.run(input("run-2", "still there?")).await;
    assert_eq!(second["created"], false);
    assert_ne!(front.run_of_thread().await, before);
    assert_eq!(task(&front.run(input("run-1", "hello")).await), task(&first), "known from before");
    let runner = front.runner().await;
    front.answer(&runner, &task(&second), "yes").await;
    let (one, two) = (front.frames("runId=run-1", None).await, front.frames("runId=run-2", None).await);
    let number = |id: &str| id.split_once('-').unwrap().0.parse::<i64>().unwrap();
    assert!(number(&two[0].0) > number(&one.last().unwrap().0), "numbers count on: {one:?} {two:?}");
    let history = front.ok("agui.history", json!({})).await;
    assert_eq!(history["messages"].as_array().unwrap().len(), 4, "{history}");
}
