//! The service alone, on either engine, through its methods; its tasks are run by hand.

mod access;
mod agent_removal;
mod artifacts;
mod events;
mod federation;
mod grid;
mod invariants;
mod limits;
mod list;
mod old_content;
mod reading;
mod repeats;
mod subscriptions;
mod timers;
mod trees;
mod two;

use super::*;
use kernel::{
    AgentRemoval, Aid, Audience, Caller, CallingAgent, Delivery, DeviceId, Event, PresentSession, RpcError,
    SlotId,
};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::time::Duration;
use testing::{DAY_MS, TestAgent, TestWorld, code};
use tokio::task::JoinSet;

/// A world whose tasks end and are removed when a test says so.
struct TestTasks {
    test: TestWorld,
    service: Arc<TaskService>,
}

/// Four agents: one gives work, one does it, one takes part, and one has nothing to do with it.
struct Cast {
    alice: TestAgent,
    bob: TestAgent,
    carol: TestAgent,
    dave: TestAgent,
}

/// The service with its methods, and none of its tasks.
fn alone(service: &Arc<TaskService>) -> Service {
    let removal = AgentRemoval::nothing_kept("a test removes it by itself");
    Service::new(&["task"], rpc(service.clone()), removal)
}

impl TestTasks {
    async fn open() -> TestTasks {
        TestTasks::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> TestTasks {
        TestTasks::of(TestWorld::with(&["ca", "auth", "agent"]).and(open).await, settings).await
    }

    async fn of(test: TestWorld, settings: Settings) -> TestTasks {
        let service = TaskService::open(&test.world, &settings).await.unwrap();
        test.world.add(alone(&service));
        TestTasks { test, service }
    }

    async fn cast(&self) -> Cast {
        let agent = async |name: &str| {
            let agent = self.test.register(name).await;
            self.arrive(&agent, "", "", 2);
            agent
        };
        Cast {
            alice: agent("alice").await,
            bob: agent("bobb").await,
            carol: agent("carol").await,
            dave: agent("dave").await,
        }
    }

    /// A long connection: without one nobody is told anything.
    fn arrive(&self, agent: &TestAgent, device: &str, slot: &str, connection: u64) {
        let session = PresentSession {
            connection,
            device: DeviceId::parse(device).unwrap(),
            slot: SlotId::parse(slot).unwrap(),
            address: [127, 0, 0, 1].into(),
            delivery: Delivery::default(),
        };
        self.test.world.presence.arrive(&Aid::parse(&agent.aid).unwrap(), session);
    }

    async fn call(&self, agent: &TestAgent, method: &str, params: Value) -> Result<Value, RpcError> {
        self.test.call_as(agent.caller(), &format!("task.{method}"), params).await
    }

    async fn ok(&self, agent: &TestAgent, method: &str, params: Value) -> Value {
        let shown = params.to_string();
        self.call(agent, method, params)
            .await
            .unwrap_or_else(|error| panic!("{method} {shown:.200}: {error}"))
    }

    async fn refused(&self, agent: &TestAgent, method: &str, params: Value) -> RpcError {
        self.call(agent, method, params).await.unwrap_err()
    }

    /// What a call is answered by code; 0 where it succeeds.
    async fn code(&self, agent: &TestAgent, method: &str, params: Value) -> i32 {
        self.call(agent, method, params).await.map_or_else(|error| error.code(), |_| 0)
    }

    /// A private task that waits for its assignee, and Carol takes part.
    async fn submitted(&self, cast: &Cast) -> String {
        let params = json!({ "to": cast.bob.aid, "input": text("do it"), "participants": [cast.carol.aid] });
        id(&self.ok(&cast.alice, "create", params).await)
    }

    async fn working(&self, cast: &Cast) -> String {
        let task = self.submitted(cast).await;
        self.ok(&cast.bob, "accept", json!({ "task_id": task })).await;
        task
    }

    /// A task in any status.
    async fn task_in(&self, cast: &Cast, status: &str) -> String {
        let task = self.submitted(cast).await;
        let about = json!({ "task_id": task });
        if matches!(status, "working" | "input_required" | "completed" | "failed") {
            self.ok(&cast.bob, "accept", about.clone()).await;
        }
        match status {
            "input_required" => {
                let ask = json!({ "task_id": task, "message": text("what?") });
                self.ok(&cast.bob, "request_input", ask).await;
            }
            "completed" => drop(self.ok(&cast.bob, "complete", about).await),
            "failed" => drop(self.ok(&cast.bob, "fail", about).await),
            "canceled" => drop(self.ok(&cast.alice, "cancel", about).await),
            "rejected" => drop(self.ok(&cast.bob, "reject", about).await),
            _ => {}
        }
        assert_eq!(self.ok(&cast.alice, "get", json!({ "task_id": task })).await["status"], status);
        task
    }

    /// A part of a task that its assignee passes on, and that is accepted.
    async fn delegated(&self, task: &str, by: &TestAgent, to: &TestAgent, required: bool) -> String {
        let params = json!({ "task_id": task, "to": to.aid, "input": text("a part"), "required": required });
        let child = id(&self.ok(by, "delegate", params).await);
        self.ok(to, "accept", json!({ "task_id": child })).await;
        child
    }

    async fn get(&self, agent: &TestAgent, task: &str) -> Value {
        self.ok(agent, "get", json!({ "task_id": task })).await
    }

    async fn status(&self, agent: &TestAgent, task: &str) -> String {
        self.get(agent, task).await["status"].as_str().unwrap().to_owned()
    }

    /// A call that runs beside others.
    fn spawn(
        &self,
        calls: &mut JoinSet<Result<Value, RpcError>>,
        caller: Caller,
        method: &str,
        params: Value,
    ) {
        let (mesh, method) = (self.test.world.mesh.clone(), format!("task.{method}"));
        calls.spawn(async move {
            let answer = mesh.call(caller, &method, Some(to_raw_value(&params).unwrap())).await?;
            Ok(serde_json::from_str(answer.get()).unwrap())
        });
    }

    /// Every event of tasks until now, in order. Events are published one commit after the other, so when a new task is told, all
    /// before it were.
    async fn events(&self) -> Vec<Event> {
        let name = format!("marker{}", hex::encode(self.test.world.ids.bytes::<4>()));
        let marker = self.test.register(&name).await;
        self.arrive(&marker, "", "", 3);
        let created = self.ok(&marker, "create", json!({ "to": marker.aid, "input": text("mark") })).await;
        let is_marker = |event: &Event| params_of(event)["task_id"] == created["task_id"];
        loop {
            let seen = self.test.events.lock().clone();
            if seen.iter().any(is_marker) {
                let of_tasks = seen.into_iter().filter(|event| event.method.starts_with("event/task."));
                return of_tasks
                    .take_while(|event| !is_marker(event))
                    .filter(|event| !of_marker(event))
                    .collect();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// What was told since the last time, in short: to whom, and what.
    async fn told(&self) -> Vec<(String, String)> {
        let told = self.events().await.iter().map(|event| (audience(event), short(event))).collect();
        self.test.events.lock().clear();
        told
    }

    fn pass(&self, ms: i64) {
        self.test.world.clock.advance_ms(ms);
    }
}

fn of_marker(event: &Event) -> bool {
    params_of(event)["actor"].as_str().is_some_and(|actor| actor.starts_with("marker"))
}

fn params_of(event: &Event) -> Value {
    serde_json::from_str(event.params.get()).unwrap()
}

/// `alice`, `alice but 1`, `alice at laptop default`.
fn audience(event: &Event) -> String {
    match &event.to {
        Audience::Agent(aid) => aid.name().to_owned(),
        Audience::Others { aid, connection } => format!("{} but {connection}", aid.name()),
        Audience::Instance { aid, device, slot } => {
            let (device, slot) = (device.as_ref().unwrap(), slot.as_ref().unwrap());
            format!("{} at {} {}", aid.name(), device.as_str(), slot.as_str())
        }
        Audience::OtherInstances { aid, device, slot } => {
            format!("{} but at {} {}", aid.name(), device.as_str(), slot.as_str())
        }
        other => panic!("{other:?}"),
    }
}

/// `updated working 2`.
fn short(event: &Event) -> String {
    let params = params_of(event);
    let name = event.method.strip_prefix("event/task.").unwrap();
    format!("{name} {} {}", params["status"].as_str().unwrap(), params["version"])
}

fn at(agent: &TestAgent, device: &str, slot: &str, connection: u64) -> Caller {
    let Caller::Agent(session) = agent.caller() else { unreachable!() };
    let (device, slot) = (DeviceId::parse(device).unwrap(), SlotId::parse(slot).unwrap());
    Caller::Agent(CallingAgent { device, slot, connection, ..session })
}

fn text(content: &str) -> Value {
    json!({ "type": "text", "content": content })
}

fn id(answer: &Value) -> String {
    answer["task_id"].as_str().unwrap().to_owned()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(to, what)| (to.to_string(), what.to_string())).collect()
}
