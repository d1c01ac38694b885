//! What another domain tells that it may not tell.

use super::*;

fn offered(task: &str, to: &str, version: i64) -> Value {
    let params = json!({
        "task_id": task, "status": "submitted", "version": version, "updated_at": "2026-03-21T13:00:00Z",
        "actor": "anna.aid.pub",
    });
    json!({
        "task": {
            "task_id": task, "root_task_id": task, "parent_task_id": null, "status": "submitted",
            "version": version, "owner": "anna.aid.pub", "assignee": to, "required": true, "title": "",
            "visibility": "private", "created_at": "2026-03-21T13:00:00Z", "updated_at": "2026-03-21T13:00:00Z",
        },
        "agents": [{ "aid": to, "role": "assignee" }],
        "events": [{ "event": "updated", "params": params, "to": [{ "aid": to }] }],
    })
}

impl TaskDomain {
    async fn offer(&self, from: &str, items: &[Value]) -> Value {
        let items = json!({ "items": items });
        self.tasks.test.call_as(service_of(from, "task"), "task.relay_event", items).await.unwrap()
    }
}

#[tokio::test]
async fn what_is_told_is_taken_once() {
    let far = TaskDomain::open(FAR).await;
    let bob = far.agent("bobb").await;
    let item = offered("task_1", &bob.aid, 1);
    let nothing = json!({ "unknown": [], "refused": [] });
    assert_eq!(far.offer(NEAR, std::slice::from_ref(&item)).await, nothing);
    assert_eq!(far.tasks.told().await, pairs(&[("bobb", "updated submitted 1")]));
    assert_eq!(far.offer(NEAR, &[item.clone(), item.clone()]).await, nothing);
    assert_eq!(far.tasks.told().await, vec![]);
    let (third, second) = (offered("task_1", &bob.aid, 3), offered("task_1", &bob.aid, 2));
    assert_eq!(far.offer(NEAR, &[third]).await, nothing);
    assert_eq!(far.offer(NEAR, &[second, item]).await, nothing, "what is old has no effect");
    assert_eq!(far.tasks.told().await, pairs(&[("bobb", "updated submitted 3")]));
    let several: Vec<Value> = (4..7).map(|version| offered("task_1", &bob.aid, version)).collect();
    far.offer(NEAR, &several).await;
    let told: Vec<String> = far.tasks.told().await.into_iter().map(|(_, what)| what).collect();
    assert_eq!(told, ["updated submitted 4", "updated submitted 5", "updated submitted 6"]);
    assert_eq!(far.list(&bob, json!({})).await[0]["version"], 6);
}

#[tokio::test]
async fn times_of_another_domain_are_read_in_every_form_and_told_in_one() {
    let far = TaskDomain::open(FAR).await;
    let bob = far.agent("bobb").await;
    let mut item = offered("task_1", &bob.aid, 1);
    item["task"]["created_at"] = json!("2026-03-21T21:00:00.5+08:00");
    item["task"]["updated_at"] = json!("2026-03-21T13:00:01.999999999Z");
    item["events"][0]["params"]["updated_at"] = json!("2026-03-21T21:00:01.25+08:00");
    item["events"][0]["params"]["artifact"] = json!({ "id": "a", "type": "text", "created_by": "anna.aid.pub", "created_at": "2026-03-21T13:00:01.7Z", "size_bytes": 1 });
    assert_eq!(far.offer(NEAR, &[item]).await["refused"], json!([]));
    let events = far.tasks.events().await;
    let told = params_of(&events[0]);
    assert_eq!(
        (&told["updated_at"], &told["artifact"]["created_at"]),
        (&json!("2026-03-21T13:00:01Z"), &json!("2026-03-21T13:00:01Z"))
    );
    let listed = &far.list(&bob, json!({})).await[0];
    assert_eq!(
        (&listed["created_at"], &listed["updated_at"]),
        (&json!("2026-03-21T13:00:00Z"), &json!("2026-03-21T13:00:01Z"))
    );
}

#[tokio::test]
async fn what_another_domain_may_not_tell_is_refused_and_the_rest_is_taken() {
    let far = TaskDomain::open(FAR).await;
    let (bob, carl) = (far.agent("bobb").await, far.agent("carl").await);
    let own = id(&far.tasks.ok(&carl, "create", json!({ "to": bob.aid, "input": text("x") })).await);
    far.offer(NEAR, &[offered("task_1", &bob.aid, 1)]).await;
    far.tasks.told().await;

    let with = |pointer: &str, value: Value| {
        let mut item = offered("task_bad", &bob.aid, 1);
        *item.pointer_mut(pointer).unwrap() = value;
        item
    };
    let event = "/events/0";
    let mut child = offered("task_bad", &bob.aid, 1);
    child["task"]["parent_task_id"] = json!("task_0");
    let flaws = [
        with("/task/task_id", json!("task bad")),
        with("/task/root_task_id", json!("task_0")),
        with("/task/owner", json!("anna.c.example")),
        with("/task/owner", json!("nobody")),
        with("/task/version", json!(0)),
        with("/task/version", json!(2)),
        with("/task/status", json!("sleeping")),
        with("/task/status", json!("working")),
        with("/task/title", json!("x".repeat(257))),
        with("/task/visibility", json!("secret")),
        with("/task/updated_at", json!("yesterday")),
        with("/agents", json!([])),
        with("/agents/0/aid", json!("anna.aid.pub")),
        with("/agents/0/role", json!("owner")),
        with("/agents/0/role", json!("participant")),
        with(&format!("{event}/event"), json!("begun")),
        with(&format!("{event}/params/task_id"), json!("task_1")),
        with(&format!("{event}/params/version"), json!(7)),
        with(&format!("{event}/params/actor"), json!("somebody")),
        with(&format!("{event}/params/updated_at"), json!(7)),
        with(&format!("{event}/params"), json!({ "task_id": "task_bad" })),
        with(&format!("{event}/params/actor"), json!("x".repeat(513 << 10))),
        with(&format!("{event}/to/0/aid"), json!("anna.aid.pub")),
        with("/events", json!(vec![offered("task_bad", &bob.aid, 1)["events"][0].clone(); 65])),
        child,
    ];
    for flaw in flaws {
        let name = flaw["task"]["task_id"].clone();
        let good = offered("task_1", &bob.aid, 1);
        let answer = far.offer(NEAR, &[flaw.clone(), good]).await;
        assert_eq!(answer, json!({ "unknown": [], "refused": [name] }), "{:.300}", flaw.to_string());
    }
    assert_eq!(far.offer("c.example", &[offered("task_1", &bob.aid, 2)]).await["refused"], json!(["task_1"]));
    let mut others = offered("task_1", &bob.aid, 2);
    others["task"]["owner"] = json!("anna.c.example");
    assert_eq!(
        far.offer("c.example", &[others]).await["refused"],
        json!(["task_1"]),
        "another domain came first"
    );
    let mut ours = offered(&own, &bob.aid, 9);
    ours["task"]["root_task_id"] = json!(own);
    assert_eq!(far.offer(NEAR, &[ours]).await["refused"], json!([own]), "it is a task of this domain");
    assert_eq!(far.tasks.told().await, vec![], "nothing of it was told");
    assert_eq!(far.list(&bob, json!({ "role": "assignee" })).await.len(), 2);

    let unknown = far.offer(NEAR, &[offered("task_2", "nobody.b.example", 1)]).await;
    assert_eq!(
        unknown,
        json!({ "unknown": [{ "task_id": "task_2", "aid": "nobody.b.example" }], "refused": [] })
    );
    let many = json!({ "items": vec![offered("task_3", &bob.aid, 1); 65] });
    let many = far.tasks.test.call_as(service_of(NEAR, "task"), "task.relay_event", many).await;
    assert_eq!(code(many), -32602);
    for caller in [service_of(NEAR, "search"), Caller::service("task"), Caller::Operator] {
        let items = json!({ "items": [offered("task_3", &bob.aid, 1)] });
        let answer = far.tasks.test.call_as(caller, "task.relay_event", items).await.unwrap();
        assert_eq!(answer["refused"], json!(["task_3"]));
    }
    let agent = far.tasks.test.call_as(bob.caller(), "task.relay_event", json!({ "items": [] })).await;
    assert_eq!(code(agent), -32601);
}
