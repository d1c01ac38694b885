//! The method × state grid of the protocol, every cell, and every actor who has no right to a row.

use super::*;

const STATES: [&str; 7] =
    ["submitted", "working", "input_required", "completed", "failed", "canceled", "rejected"];

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Owner,
    Assignee,
    Participant,
}

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// Allowed, and this is the status afterwards.
    To(&'static str),
    Keeps,
    No(i32),
}

use Cell::{Keeps, No, To};

/// A row: the method, who may call it, and its cells in the open states; the final ones are the same in every row.
const GRID: [(&str, Part, [Cell; 3]); 10] = [
    ("accept", Part::Assignee, [To("working"), No(-32176), No(-32176)]),
    ("reject", Part::Assignee, [To("rejected"), No(-32171), No(-32171)]),
    ("send_input", Part::Owner, [Keeps, Keeps, To("working")]),
    ("send_input", Part::Assignee, [Keeps, Keeps, Keeps]),
    ("request_input", Part::Assignee, [No(-32171), To("input_required"), No(-32171)]),
    ("add_artifact", Part::Assignee, [No(-32171), Keeps, Keeps]),
    ("delegate", Part::Assignee, [No(-32171), Keeps, Keeps]),
    ("complete", Part::Assignee, [No(-32171), To("completed"), No(-32172)]),
    ("fail", Part::Assignee, [No(-32171), To("failed"), To("failed")]),
    ("cancel", Part::Owner, [To("canceled"), To("canceled"), To("canceled")]),
];
const ENDED: [Cell; 4] = [No(-32171), No(-32186), No(-32173), No(-32177)];

fn params(method: &str, task: &str, cast: &Cast) -> Value {
    match method {
        "send_input" => json!({ "task_id": task, "input": text("more") }),
        "request_input" => json!({ "task_id": task, "message": text("what?") }),
        "add_artifact" => {
            json!({ "task_id": task, "artifact": { "id": "a", "type": "text", "content": "x" } })
        }
        "delegate" => json!({ "task_id": task, "to": cast.dave.aid, "input": text("a part") }),
        "complete" => json!({ "task_id": task, "artifacts": [] }),
        _ => json!({ "task_id": task }),
    }
}

fn agent(cast: &Cast, part: Part) -> &TestAgent {
    match part {
        Part::Owner => &cast.alice,
        Part::Assignee => &cast.bob,
        Part::Participant => &cast.carol,
    }
}

async fn assert_cell(tasks: &TestTasks, cast: &Cast, method: &str, part: Part, state: &str, cell: Cell) {
    let task = tasks.task_in(cast, state).await;
    let before = tasks.get(&cast.alice, &task).await;
    let code = tasks.code(agent(cast, part), method, params(method, &task, cast)).await;
    let after = tasks.get(&cast.alice, &task).await;
    let which = format!("{method} by {part:?} in {state}");
    let (expected, status, more) = match cell {
        To(status) => (0, status, 1),
        Keeps => (0, state, 1),
        No(code) => (code, state, 0),
    };
    assert_eq!((code, after["status"].as_str()), (expected, Some(status)), "{which}");
    assert_eq!(
        after["version"].as_i64(),
        before["version"].as_i64().map(|version| version + more),
        "{which}"
    );
    if more == 0 {
        assert_eq!(after, before, "{which}: a call that is refused changes nothing");
    }
}

#[tokio::test]
async fn every_cell_is_as_the_protocol_has_it() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for (method, part, open) in GRID {
        for (state, cell) in STATES.into_iter().zip(open.into_iter().chain(ENDED)) {
            assert_cell(&tasks, &cast, method, part, state, cell).await;
        }
    }
    // A participant may say something, as the assignee may.
    for (state, cell) in STATES.into_iter().zip([Keeps, Keeps, Keeps].into_iter().chain(ENDED)) {
        assert_cell(&tasks, &cast, "send_input", Part::Participant, state, cell).await;
    }
}

#[tokio::test]
async fn whoever_has_no_right_is_told_so_in_every_state() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for state in STATES {
        let task = tasks.task_in(&cast, state).await;
        let before = tasks.get(&cast.alice, &task).await;
        for (method, part, _) in GRID.into_iter().filter(|(method, ..)| *method != "send_input") {
            for wrong in [Part::Owner, Part::Assignee, Part::Participant] {
                if wrong == part {
                    continue;
                }
                let code = tasks.code(agent(&cast, wrong), method, params(method, &task, &cast)).await;
                let expected = if method == "delegate" { -32178 } else { -32175 };
                assert_eq!(code, expected, "{method} by {wrong:?} in {state}");
            }
        }
        for method in GRID.map(|(method, ..)| method) {
            let mut params = params(method, &task, &cast);
            if method == "delegate" {
                params["to"] = json!(cast.alice.aid);
            }
            let code = tasks.code(&cast.dave, method, params).await;
            assert_eq!(code, -32170, "{method} by somebody who has nothing to do with it, in {state}");
        }
        let prompt = json!({ "task_id": task, "input": text("what?"), "require_input": true });
        assert_eq!(tasks.code(&cast.carol, "send_input", prompt.clone()).await, -32175);
        assert_eq!(tasks.code(&cast.alice, "send_input", prompt).await, -32175);
        assert_eq!(tasks.get(&cast.alice, &task).await, before);
    }
}

#[tokio::test]
async fn everything_can_be_read_in_every_state() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for state in STATES {
        let task = tasks.task_in(&cast, state).await;
        for reader in [&cast.alice, &cast.bob, &cast.carol] {
            assert_eq!(tasks.status(reader, &task).await, state);
            let children = tasks.ok(reader, "children", json!({ "task_id": task })).await;
            assert_eq!(children, json!({ "task_id": task, "children": [], "count": 0 }));
            let subscribed = tasks.ok(reader, "subscribe", json!({ "task_ids": [task] })).await;
            assert_eq!(subscribed["subscribed"], json!([task]));
            let page = tasks.ok(reader, "list", json!({ "status": state })).await;
            assert_eq!(page["items"][0]["task_id"], json!(task));
        }
    }
}

#[tokio::test]
async fn the_assignee_may_ask_in_either_spelling() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.working(&cast).await;
    let prompt = json!({ "task_id": task, "input": text("which?"), "require_input": true });
    let answer = tasks.ok(&cast.bob, "send_input", prompt).await;
    assert_eq!(answer, json!({ "task_id": task, "status": "input_required" }));
    let answer = tasks.ok(&cast.alice, "send_input", json!({ "task_id": task, "input": text("this") })).await;
    assert_eq!(answer, json!({ "task_id": task, "status": "working" }));
    let messages = tasks.get(&cast.carol, &task).await["messages"].clone();
    let kinds: Vec<&Value> = messages.as_array().unwrap().iter().map(|message| &message["kind"]).collect();
    assert_eq!(kinds, ["input", "prompt", "input"]);
}
