//! The messages of a day.

use super::support::{FrontEnd, THREAD, input, task};
use serde_json::{Value, json};
use testing::DAY_MS;

fn contents(history: &Value) -> Vec<&str> {
    history["messages"].as_array().unwrap().iter().map(|row| row["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn only_what_was_said_to_the_end_is_shown() {
    let front = FrontEnd::open().await;
    let runs = ["done", "failed", "pieces", "open"].map(|name| input(name, name));
    let mut tasks = Vec::new();
    for run in runs {
        tasks.push(task(&front.run(run).await));
    }
    let runner = front.runner().await;
    let tool = json!({ "callId": "c", "toolName": "clock", "status": "completed", "output": "12:00" });
    front.acknowledge(&runner, &tasks[0]).await;
    front.say(&runner, &tasks[0], &[("tool_call", tool)]).await;
    let draft = json!({ "itemId": "a", "text": "let me see", "final": false });
    let hints = json!({ "phase": "ui-hints", "ui_hints": { "status": "success", "title": "Done" } });
    front.say(&runner, &tasks[0], &[("assistant_message", draft)]).await;
    let reply = json!({ "itemId": "b", "text": "it is noon", "final": false });
    let last = json!({ "itemId": "b", "text": "it is noon", "final": true, "replyAuthority": true });
    front
        .say(
            &runner,
            &tasks[0],
            &[("assistant_message", reply), ("backend_status", hints), ("assistant_message", last)],
        )
        .await;
    front.end(&runner, &tasks[0], "completed").await;
    front.acknowledge(&runner, &tasks[1]).await;
    front.say(&runner, &tasks[1], &[("assistant_message", json!({ "itemId": "c", "text": "half" }))]).await;
    front.end(&runner, &tasks[1], "failed").await;
    front.acknowledge(&runner, &tasks[2]).await;
    for piece in ["one ", "two"] {
        let said = json!({ "itemId": "p", "text": piece, "partial": true });
        front.say(&runner, &tasks[2], &[("assistant_message", said)]).await;
    }
    front.end(&runner, &tasks[2], "completed").await;

    let history = front.ok("agui.history", json!({})).await;
    assert_eq!(
        contents(&history),
        ["done", "failed", "pieces", "open", "let me see", "it is noon", "one two"],
        "{history}"
    );
    let shown = &history["messages"];
    assert_eq!(
        (&shown[0]["role"], &shown[0]["id"], &shown[0]["attachments"]),
        (&json!("user"), &json!("msg-done"), &json!([]))
    );
    assert_eq!((&shown[4]["role"], &shown[4]["ui_schema"]), (&json!("assistant"), &Value::Null));
    assert_eq!(shown[5]["ui_schema"]["root"]["children"][0]["content"], "Done", "{history}");
    let order: Vec<i64> = shown.as_array().unwrap().iter().map(|row| row["seq"].as_i64().unwrap()).collect();
    assert!(order.is_sorted() && order[0] == 1, "{order:?}");
    let kept: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM agui_message WHERE role = 'tool' AND shown = 0")
        .fetch_one(front.runs.run.store.db().read())
        .await
        .unwrap();
    assert_eq!(kept, 1, "what tools said is kept for the conversation");
}

#[tokio::test]
async fn days_are_those_of_the_user() {
    let front = FrontEnd::open().await;
    let clock = &front.runs.test.world.clock;
    // 23:30 in UTC is the next day in Berlin.
    clock.advance_ms(kernel::from_iso("2026-11-20T23:30:00Z").unwrap() - clock.now_ms());
    for name in ["one", "two", "three"] {
        if name != "one" {
            clock.advance_ms(DAY_MS);
        }
        front.run(input(name, name)).await;
    }
    let read =
        |before: Option<&str>| front.ok("agui.history", json!({ "threadId": THREAD, "before": before }));
    let newest = read(None).await;
    assert_eq!(
        (&newest["day"], &newest["hasMore"], contents(&newest)),
        (&json!("2026-11-22"), &json!(true), vec!["three"])
    );
    let earlier = read(Some("2026-11-22")).await;
    assert_eq!((&earlier["day"], contents(&earlier)), (&json!("2026-11-21"), vec!["two"]));
    let first = read(Some("2026-11-21")).await;
    assert_eq!(
        (&first["day"], &first["hasMore"], contents(&first)),
        (&json!("2026-11-20"), &json!(false), vec!["one"])
    );
    let none = read(Some("2026-11-20")).await;
    assert_eq!(
        (&none["day"], &none["messages"], &none["threadId"]),
        (&Value::Null, &json!([]), &json!(THREAD))
    );
    front.ok("agui.set_profile", json!({ "timezone": "Europe/Berlin" })).await;
    let berlin = read(None).await;
    assert_eq!((&berlin["day"], contents(&berlin)), (&json!("2026-11-23"), vec!["three"]));
    for bad in ["yesterday", "2026-02-30", "2026-2-3", "20261120"] {
        let refused = front.refused("agui.history", json!({ "threadId": THREAD, "before": bad })).await;
        assert_eq!(refused, ("invalid before".to_owned(), 422), "{bad}");
    }
    let refused = front.refused("agui.set_profile", json!({ "timezone": "Berlin" })).await;
    assert_eq!(refused.1, 422);
    assert_eq!(front.ok("agui.profile", json!({})).await, json!({ "timezone": "Europe/Berlin" }));
    front.ok("agui.set_profile", json!({ "timezone": null })).await;
    assert_eq!(front.ok("agui.profile", json!({})).await, json!({ "timezone": null }));
}
