//! What an agent wrote in tasks that ended a while ago goes first where its share is full.

use super::*;

const SHARE: u64 = 1 << 20;
/// Of one text: fourteen tasks of two such texts each are over seven eighths of the share.
const TEXT: usize = 32 << 10;

async fn small_share() -> (TestTasks, Cast) {
    let tasks = TestTasks::with(Settings { kept_bytes: SHARE, ..Settings::default() }).await;
    let cast = tasks.cast().await;
    (tasks, cast)
}

fn long() -> Value {
    text(&"x".repeat(TEXT))
}

impl TestTasks {
    /// A task of Alice that Bob completed, with an input and an artifact of so many bytes.
    async fn completed(&self, cast: &Cast, input: Value, artifact: usize) -> String {
        let params = json!({ "to": cast.bob.aid, "input": input, "participants": [cast.carol.aid],
            "metadata": { "project": "x" } });
        let task = id(&self.ok(&cast.alice, "create", params).await);
        self.ok(&cast.bob, "accept", json!({ "task_id": task })).await;
        let result = json!({ "id": "result", "type": "text", "content": "y".repeat(artifact) });
        self.ok(&cast.bob, "complete", json!({ "task_id": task, "artifacts": [result] })).await;
        self.pass(1000);
        task
    }

    /// Tasks until Alice has over seven eighths of her share.
    async fn nearly_full(&self, cast: &Cast) -> Vec<String> {
        let mut made = Vec::new();
        for _ in 0..28 {
            made.push(self.completed(cast, long(), 10).await);
        }
        made
    }

    async fn kept(&self, agent: &TestAgent) -> i64 {
        let account = self.test.inside("task.account", json!({ "aid": agent.aid })).await;
        account["accounts"][0]["bytes"].as_i64().unwrap()
    }

    /// How many accounts are not what their rows are.
    async fn differing(&self) -> Value {
        self.test.inside("task.account", json!({ "recount": true })).await["corrected"].clone()
    }

    /// Which of these tasks say that something of them was removed.
    async fn removed<'a>(&self, by: &TestAgent, made: &'a [String]) -> Vec<&'a String> {
        let mut removed = Vec::new();
        for task in made {
            let seen = self.get(by, task).await;
            match seen.get("content_removed") {
                Some(said) => assert_eq!(said, true),
                None => continue,
            }
            removed.push(task);
        }
        removed
    }
}

#[tokio::test]
async fn the_oldest_texts_of_an_agent_go_when_its_share_is_nearly_full() {
    let (tasks, cast) = small_share().await;
    let made = tasks.nearly_full(&cast).await;
    let open = tasks.working(&cast).await;
    let held = tasks.kept(&cast.alice).await;
    assert!(held > (SHARE / 8 * 7) as i64, "{held}");

    tasks.pass(7 * DAY_MS - 30_000);
    tasks.service.make_space(true).await.unwrap();
    assert_eq!(tasks.removed(&cast.bob, &made).await, Vec::<&String>::new(), "none ended seven days ago");

    tasks.pass(40_000);
    let (bob, carol) = (tasks.kept(&cast.bob).await, tasks.kept(&cast.carol).await);
    tasks.service.make_space(true).await.unwrap();
    let held = tasks.kept(&cast.alice).await;
    let space = (SHARE / 8 * 6) as i64;
    assert!(held <= space && held > space - (TEXT as i64 + 2048), "{held}");
    let removed = tasks.removed(&cast.bob, &made).await;
    assert_eq!(removed, made[..removed.len()].iter().collect::<Vec<_>>(), "the oldest");
    assert!((4..8).contains(&removed.len()), "and no more than is needed: {}", removed.len());
    assert_eq!((tasks.kept(&cast.bob).await, tasks.kept(&cast.carol).await), (bob, carol));
    assert_eq!(tasks.differing().await, 0);

    let seen = tasks.get(&cast.bob, &made[0]).await;
    assert_eq!((&seen["input"], &seen["messages"]), (&text(""), &json!([])));
    assert_eq!(
        (&seen["metadata"], &seen["version"]),
        (&Value::Null, &json!(3)),
        "it did not change otherwise"
    );
    assert_eq!(seen["artifacts"][0]["content"], "y".repeat(10), "what others wrote stays");
    assert_eq!(tasks.get(&cast.alice, &open).await["input"], text("do it"));

    tasks.service.make_space(true).await.unwrap();
    assert_eq!(tasks.removed(&cast.bob, &made).await.len(), removed.len(), "there is space");
}

#[tokio::test]
async fn artifacts_and_messages_of_the_assignee_are_its_own() {
    let (tasks, cast) = small_share().await;
    let mut made = Vec::new();
    for n in 0..8 {
        let task = tasks.working(&cast).await;
        for from in [&cast.alice, &cast.bob, &cast.carol] {
            let said = json!({ "task_id": task, "input": text(&format!("{n} of {}", from.aid)) });
            tasks.ok(from, "send_input", said).await;
        }
        let result = json!({ "id": "result", "type": "text", "content": "y".repeat(120 << 10) });
        tasks.ok(&cast.bob, "complete", json!({ "task_id": task, "artifacts": [result] })).await;
        tasks.pass(1000);
        made.push(task);
    }
    tasks.pass(8 * DAY_MS);
    tasks.service.make_space(true).await.unwrap();
    let removed = tasks.removed(&cast.alice, &made).await;
    assert_eq!(removed, made[..2].iter().collect::<Vec<_>>());
    let seen = tasks.get(&cast.alice, &made[0]).await;
    let from = seen["messages"].as_array().unwrap().iter().map(|message| message["from"].clone());
    let (alice, carol) = (json!(cast.alice.aid), json!(cast.carol.aid));
    assert_eq!(from.collect::<Vec<_>>(), [alice.clone(), alice, carol]);
    assert_eq!((&seen["artifacts"], &seen["input"]), (&json!([]), &text("do it")));
    let later = tasks.ok(&cast.alice, "get", json!({ "task_id": made[0], "messages_after_seq": 2 })).await;
    assert_eq!(later["messages"].as_array().unwrap().len(), 1, "seq 3 was of the assignee");
    assert_eq!(tasks.get(&cast.alice, &made[7]).await["artifacts"].as_array().unwrap().len(), 1);
    assert_eq!(tasks.differing().await, 0);
}

#[tokio::test]
async fn who_is_refused_may_try_again_if_something_old_goes_meanwhile() {
    let (tasks, cast) = small_share().await;
    let made = tasks.nearly_full(&cast).await;
    let create = json!({ "to": cast.bob.aid, "input": text(&"x".repeat(60 << 10)) });
    let fill = async || loop {
        if let Err(refused) = tasks.call(&cast.alice, "create", create.clone()).await {
            break refused;
        }
    };
    let refused = fill().await;
    assert_eq!((refused.code(), refused.data("scope")), (-32029, Some(&json!("task.kept_bytes"))));
    assert_eq!((refused.data("retryable"), refused.data("retry_after_ms")), (Some(&json!(false)), None));
    tasks.service.make_space(false).await.unwrap();
    tasks.refused(&cast.alice, "create", create.clone()).await;

    tasks.pass(8 * DAY_MS);
    let refused = fill().await;
    assert_eq!(refused.data("retryable"), Some(&json!(true)));
    assert!(refused.data("retry_after_ms").and_then(Value::as_i64).unwrap() > 0);
    tasks.service.make_space(false).await.unwrap();
    tasks.ok(&cast.alice, "create", create.clone()).await;
    assert!(!tasks.removed(&cast.bob, &made).await.is_empty());

    // What is left is open: nothing of it goes, and the refusal says so.
    for _ in 0..20 {
        fill().await;
        tasks.service.make_space(false).await.unwrap();
    }
    assert_eq!(fill().await.data("retryable"), Some(&json!(false)));
    assert_eq!(tasks.removed(&cast.bob, &made).await.len(), made.len());
    assert_eq!(tasks.differing().await, 0);
}

#[tokio::test]
async fn a_limit_of_the_operator_and_the_days_of_the_setting_count() {
    let settings = Settings { kept_bytes: SHARE, keep_content_days: 1, ..Settings::default() };
    let tasks = TestTasks::with(settings).await;
    let cast = tasks.cast().await;
    let made = tasks.nearly_full(&cast).await;
    tasks.pass(2 * DAY_MS);
    let limit = async |bytes: u64| {
        tasks.test.inside("task.account", json!({ "aid": cast.alice.aid, "bytes": bytes })).await;
        tasks.service.make_space(true).await.unwrap();
        tasks.removed(&cast.bob, &made).await.len()
    };
    assert_eq!(limit(SHARE * 2).await, 0);
    let removed = limit(0).await;
    assert!(removed > 0);
    assert!(limit(SHARE / 2).await > removed);
    assert!(tasks.kept(&cast.alice).await <= (SHARE / 16 * 6) as i64);
}

#[tokio::test]
async fn two_processes_remove_no_more_than_has_to_go_and_wait_for_no_call_for_ever() {
    let (tasks, cast) = small_share().await;
    let settings = Settings { kept_bytes: SHARE, ..Settings::default() };
    let other = TaskService::open(&tasks.test.world, &settings).await.unwrap();
    let made = tasks.nearly_full(&cast).await;
    tasks.pass(8 * DAY_MS);
    let calls = async {
        let mut open = Vec::new();
        for _ in 0..20 {
            open.push(tasks.submitted(&cast).await);
        }
        for task in open {
            tasks.ok(&cast.alice, "send_input", json!({ "task_id": task, "input": text("more") })).await;
        }
    };
    let (one, two, ()) = tokio::join!(tasks.service.make_space(true), other.make_space(true), calls);
    one.unwrap();
    two.unwrap();
    tasks.service.make_space(true).await.unwrap();
    let removed = tasks.removed(&cast.bob, &made).await.len();
    assert!((4..9).contains(&removed), "{removed}");
    assert_eq!(tasks.differing().await, 0);
}

#[tokio::test]
async fn how_far_it_came_is_forgotten_with_the_tasks() {
    let (tasks, cast) = small_share().await;
    tasks.nearly_full(&cast).await;
    tasks.pass(8 * DAY_MS);
    tasks.service.make_space(true).await.unwrap();
    let places = async || -> i64 {
        let query = sqlx::query_scalar("SELECT COUNT(*) FROM task_content_removal");
        query.fetch_one(tasks.service.store.db().read()).await.unwrap()
    };
    assert_eq!(places().await, 1);
    tasks.pass(90 * DAY_MS);
    tasks.service.remove_ended().await.unwrap();
    assert_eq!(places().await, 0);
}
