//! Tasks that are given to keep others from giving any.

use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn who_fills_a_list_of_open_tasks_keeps_nobody_out() {
    let server = TestServer::with("task.open_tasks = 20").await;
    let (worker, mallory) = (server.agent("worker").await, server.agent("mallory").await);
    let task = json!({ "to": worker.aid(), "input": { "type": "text", "content": "work" } });
    for _ in 0..20 {
        mallory.call("task.create", &task).await;
    }
    let refused = mallory.try_call("task.create", &task).await.expect_err("the list is full");
    assert_eq!(refused["code"], -32029, "{refused}");
    let alice = server.agent("alice").await;
    let hired = alice.try_call("task.create", &task).await;
    hired.unwrap_or_else(|error| panic!("she has no other task there: {error}"));
}
