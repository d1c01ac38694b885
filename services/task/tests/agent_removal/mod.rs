//! What becomes of tasks when the AID of one who takes part in them ends.

use super::*;
use kernel::AgentRemover;

impl TestTasks {
    /// Revokes an agent, and does what the task of the service does then.
    async fn revoke(&self, agent: &TestAgent) {
        self.test.inside("ca.revoke_cert", json!({ "aid": agent.aid })).await;
        let (world, service) = (&self.test.world, &self.service);
        let remover = AgentRemover::new(world, "task", service.store.db(), service.clone());
        remover.remove_ended().await.unwrap();
    }

    async fn count(&self, text: &'static str) -> i64 {
        sqlx::query_scalar(text).fetch_one(self.service.store.db().read()).await.unwrap()
    }
}

async fn seen(tasks: &TestTasks, by: &TestAgent, task: &str) -> (String, String) {
    let seen = tasks.get(by, task).await;
    let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn pair(state: &str, reason: &str) -> (String, String) {
    (state.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn open_tasks_of_a_revoked_owner_are_canceled_and_the_assignee_is_told() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let mut open = Vec::new();
    for status in ["submitted", "working", "input_required"] {
        open.push(tasks.task_in(&cast, status).await);
    }
    let done = tasks.task_in(&cast, "completed").await;
    let part = tasks.delegated(&open[1], &cast.bob, &cast.dave, true).await;
    tasks.told().await;

    tasks.revoke(&cast.alice).await;
    for task in &open {
        assert_eq!(seen(&tasks, &cast.bob, task).await, pair("canceled", "owner_revoked"), "{task}");
    }
    assert_eq!(seen(&tasks, &cast.dave, &part).await, pair("canceled", "parent_canceled"));
    assert_eq!(seen(&tasks, &cast.bob, &done).await, pair("completed", ""), "it stays for the others");
    let told = tasks.told().await;
    assert_eq!(
        told.iter().filter(|(to, _)| to == "bobb").count(),
        4,
        "three tasks, and the one below: {told:?}"
    );
    assert!(told.contains(&("dave".to_owned(), "updated canceled 3".to_owned())), "{told:?}");
    tasks.revoke(&cast.alice).await;
    assert_eq!(tasks.told().await, pairs(&[]), "nothing ends twice");
}

#[tokio::test]
async fn open_tasks_of_a_revoked_assignee_fail_and_the_owner_is_told() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let mut open = Vec::new();
    for status in ["submitted", "working", "input_required"] {
        open.push(tasks.task_in(&cast, status).await);
    }
    let part = tasks.delegated(&open[1], &cast.bob, &cast.dave, true).await;
    tasks.told().await;

    tasks.revoke(&cast.bob).await;
    for task in &open {
        assert_eq!(seen(&tasks, &cast.alice, task).await, pair("failed", "assignee_revoked"), "{task}");
    }
    assert_eq!(seen(&tasks, &cast.dave, &part).await, pair("canceled", "parent_failed"));
    let told = tasks.told().await;
    let failed = told.iter().filter(|(to, what)| to == "alice" && what.starts_with("failed failed"));
    assert_eq!(failed.count(), 3, "{told:?}");
    let new = json!({ "to": cast.bob.aid, "input": text("more") });
    assert_eq!(tasks.code(&cast.alice, "create", new).await, -32602, "nobody gives it a task");
}

#[tokio::test]
async fn a_tree_is_removed_when_the_last_who_took_part_has_ended() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.task_in(&cast, "working").await;
    tasks.delegated(&task, &cast.bob, &cast.dave, false).await;
    let own = json!({ "to": cast.alice.aid, "input": text("a note to myself") });
    let own = id(&tasks.ok(&cast.alice, "create", own).await);
    tasks.ok(&cast.alice, "cancel", json!({ "task_id": own })).await;

    tasks.revoke(&cast.alice).await;
    let left: Vec<String> = sqlx::query_scalar("SELECT id FROM task WHERE parent_id IS NULL")
        .fetch_all(tasks.service.store.db().read())
        .await
        .unwrap();
    assert_eq!(left, [task], "the one of nobody else is removed");
    tasks.revoke(&cast.dave).await;
    tasks.revoke(&cast.bob).await;
    assert_eq!(tasks.count("SELECT COUNT(*) FROM task").await, 2, "carol takes part");
    tasks.revoke(&cast.carol).await;
    for text in [
        "SELECT COUNT(*) FROM task",
        "SELECT COUNT(*) FROM task_message",
        "SELECT COUNT(*) FROM task_participant",
    ] {
        assert_eq!(tasks.count(text).await, 0, "{text}");
    }
}

#[tokio::test]
async fn many_ended_tasks_are_looked_at_page_by_page() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    for number in 0..120 {
        let own = json!({ "to": cast.alice.aid, "input": text(&format!("note {number}")) });
        tasks.ok(&cast.alice, "create", own).await;
    }
    let shared = tasks.task_in(&cast, "rejected").await;
    tasks.revoke(&cast.alice).await;
    assert_eq!(tasks.count("SELECT COUNT(*) FROM task").await, 1);
    assert_eq!(tasks.status(&cast.bob, &shared).await, "rejected");
}

#[tokio::test]
async fn subscriptions_and_answers_of_a_revoked_agent_are_removed() {
    let tasks = TestTasks::open().await;
    let cast = tasks.cast().await;
    let task = tasks.submitted(&cast).await;
    for agent in [&cast.carol, &cast.bob] {
        let subscribe = json!({ "task_ids": [task] });
        tasks.test.call_as(at(agent, "laptop", "main", 5), "task.subscribe", subscribe).await.unwrap();
    }
    let once = json!({ "to": cast.bob.aid, "input": text("once"), "idempotency_key": "k" });
    tasks.ok(&cast.carol, "create", once).await;
    tasks.revoke(&cast.carol).await;
    assert_eq!(tasks.count("SELECT COUNT(*) FROM task_subscription").await, 1);
    assert_eq!(tasks.count("SELECT COUNT(*) FROM task_answer").await, 0);
}
