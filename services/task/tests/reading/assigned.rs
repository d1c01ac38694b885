//! What the service is answered that works on the tasks of agents in their place.

use crate::tests::*;
use kernel::{DiskReading, codes};
use proto_schemas::requests::task::AssignedTasksChanged;

const RUN: &str = "run";

impl TestTasks {
    async fn assigned(&self, params: Value) -> Result<Value, RpcError> {
        self.test.call_as(Caller::service(RUN), "task.assigned", params).await
    }

    /// The ids and the statuses of all pages.
    async fn all_assigned(&self, aids: &[&str], limit: usize) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut params = json!({ "aids": aids, "limit": limit });
        loop {
            let page = self.assigned(params.clone()).await.unwrap();
            let tasks = page["tasks"].as_array().unwrap();
            assert!(tasks.len() <= limit);
            found.extend(tasks.iter().map(|task| (id(task), task["status"].as_str().unwrap().to_owned())));
            if page["has_more"] == false {
                return found;
            }
            params["after"] = found.last().unwrap().0.clone().into();
        }
    }

    async fn act(&self, aid: &str, method: &str, params: Value) -> Result<Value, RpcError> {
        let act = json!({ "aid": aid, "method": format!("task.{method}"), "params": params });
        Ok(self.test.call_as(Caller::service(RUN), "task.act", act).await?["result"].take())
    }
}

#[tokio::test]
async fn the_open_tasks_of_some_agents_are_listed_and_no_others() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let mut open = Vec::new();
    for status in ["submitted", "working", "completed", "input_required", "canceled", "rejected", "failed"] {
        let task = tasks.task_in(&cast, status).await;
        if ["submitted", "working", "input_required"].contains(&status) {
            open.push((task, status.to_owned()));
        }
    }
    let own = tasks.ok(&cast.carol, "create", json!({ "to": cast.carol.aid, "input": text("a note") })).await;
    let others =
        tasks.ok(&cast.bob, "create", json!({ "to": cast.dave.aid, "input": text("not asked for") })).await;
    open.push((id(&own), "submitted".to_owned()));
    open.sort();
    for limit in [1, 2, 1000] {
        assert_eq!(tasks.all_assigned(&[&cast.bob.aid, &cast.carol.aid], limit).await, open);
    }
    assert_eq!(tasks.all_assigned(&[&cast.dave.aid], 10).await, [(id(&others), "submitted".to_owned())]);
    assert!(tasks.all_assigned(&[&cast.alice.aid], 10).await.is_empty(), "it has only given tasks");
    for refused in [json!({ "aids": [] }), json!({ "aids": vec![&cast.bob.aid; 1001] })] {
        assert_eq!(tasks.assigned(refused).await.unwrap_err().code(), codes::INVALID_PARAMS.code);
    }
}

#[tokio::test]
async fn who_works_on_tasks_acts_as_their_assignee_and_as_nobody_else() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    let about = json!({ "task_id": task });
    let read = tasks.act(&cast.bob.aid, "get", about.clone()).await.unwrap();
    assert_eq!((&read["status"], &read["input"]), (&json!("submitted"), &text("do it")));
    let code = async |aid: &str, method: &str, params: Value| {
        tasks.act(aid, method, params).await.map_or_else(|error| error.code(), |_| 0)
    };
    assert_eq!(code(&cast.alice.aid, "accept", about.clone()).await, codes::task::TASK_ACCESS_DENIED.code);
    assert_eq!(code(&cast.dave.aid, "get", about.clone()).await, codes::task::TASK_NOT_FOUND.code);
    assert_eq!(code("bobb.elsewhere.example", "get", about.clone()).await, codes::INVALID_PARAMS.code);
    for method in ["cancel", "create", "send_input", "delegate", "act"] {
        assert_eq!(code(&cast.bob.aid, method, about.clone()).await, codes::INVALID_PARAMS.code, "{method}");
    }
    assert_eq!(code(&cast.bob.aid, "accept", json!({ "task": task })).await, codes::INVALID_PARAMS.code);

    assert_eq!(tasks.act(&cast.bob.aid, "accept", about.clone()).await.unwrap()["status"], "working");
    let ask = json!({ "task_id": task, "message": text("what?"), "request_id": "one" });
    for _ in 0..2 {
        tasks.act(&cast.bob.aid, "request_input", ask.clone()).await.unwrap();
    }
    tasks.ok(&cast.alice, "send_input", json!({ "task_id": task, "input": text("this") })).await;
    let since = json!({ "task_id": task, "messages_after_seq": 1 });
    let said = tasks.act(&cast.bob.aid, "get", since).await.unwrap();
    let kinds: Vec<&Value> = said["messages"].as_array().unwrap().iter().map(|said| &said["kind"]).collect();
    assert_eq!(kinds, ["prompt", "input"], "asked once");
    let result = json!({ "id": "reply", "type": "text", "content": "done" });
    let complete = json!({ "task_id": task, "artifacts": [result] });
    assert_eq!(tasks.act(&cast.bob.aid, "complete", complete).await.unwrap()["status"], "completed");
    let told = tasks.get(&cast.alice, &task).await;
    assert_eq!(told["artifacts"][0]["created_by"], json!(cast.bob.aid));

    for (method, status) in [("reject", "rejected"), ("fail", "failed")] {
        let task = tasks.task_in(&cast, if method == "fail" { "working" } else { "submitted" }).await;
        let params = json!({ "task_id": task, "reason": "no way" });
        assert_eq!(tasks.act(&cast.bob.aid, method, params).await.unwrap()["status"], status);
        assert_eq!(tasks.get(&cast.alice, &task).await["reason"], "no way");
    }
}

#[tokio::test]
async fn who_has_asked_for_the_tasks_of_an_agent_is_told_when_they_change() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let told = async || tasks.told_whose_tasks_changed().await;
    let bob = [cast.bob.aid.clone()];
    tasks.submitted(&cast).await;
    assert!(told().await.is_empty(), "nobody has asked");
    tasks.all_assigned(&[&cast.bob.aid], 10).await;
    let task = tasks.submitted(&cast).await;
    assert_eq!(told().await, bob);
    tasks.ok(&cast.alice, "create", json!({ "to": cast.dave.aid, "input": text("else") })).await;
    assert!(told().await.is_empty(), "the tasks of another agent");
    tasks.ok(&cast.alice, "cancel", json!({ "task_id": task })).await;
    assert_eq!(told().await, bob);
}

impl TestTasks {
    /// Since the last time.
    async fn told_whose_tasks_changed(&self) -> Vec<String> {
        // Whatever was committed before was told before.
        self.events().await;
        let told = self.test.events.lock().drain(..).collect::<Vec<_>>();
        let signals = told.iter().filter_map(Event::as_signal::<AssignedTasksChanged>);
        signals.flat_map(|changed| changed.aids).map(|aid| aid.to_string()).collect()
    }
}

/// As for an agent that calls these methods itself.
#[tokio::test]
async fn without_free_space_an_assignee_does_what_needs_none() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let new = tasks.task_in(&cast, "submitted").await;
    let (done, failed) = (tasks.working(&cast).await, tasks.working(&cast).await);
    tasks.test.world.disk.set(DiskReading::of_disk(0, 1));
    let artifact = json!({ "id": "reply", "type": "text", "mime_type": "text/plain", "content": "fine" });
    for (method, params) in [
        ("complete", json!({ "task_id": done, "artifacts": [artifact] })),
        ("request_input", json!({ "task_id": done, "message": text("which?") })),
    ] {
        let refused = tasks.act(&cast.bob.aid, method, params).await.unwrap_err();
        assert_eq!((refused.code(), refused.data("reason")), (5003, Some(&json!("no_space"))), "{method}");
    }
    for (method, task) in [("get", &new), ("accept", &new), ("complete", &done), ("fail", &failed)] {
        tasks.act(&cast.bob.aid, method, json!({ "task_id": task })).await.expect(method);
    }
}
