//! Domains with peer links between them: each has its own store, and what crosses is what gateways pass on.

mod away;
mod calls;
mod offered;
mod stubs;

use super::*;
use kernel::{CallingAgent, Forwarder, Generation, Mesh, Methods, PendingAnswer, Relayed, codes};
use parking_lot::Mutex;
use proto_schemas::requests::gateway::ForwardFederation;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};

const NEAR: &str = "aid.pub";
const FAR: &str = "b.example";

/// The way from one domain to others.
struct TestLinks {
    from: String,
    to: Mutex<HashMap<String, Arc<Mesh>>>,
    /// Domains that cannot be reached.
    down: Mutex<HashSet<String>>,
    /// Why every call is refused.
    refused: Mutex<Option<&'static str>>,
    /// The domain and the method of every call.
    calls: Mutex<Vec<(String, String)>>,
}

impl Forwarder for TestLinks {
    fn forward(self: Arc<Self>, caller: &Caller, forward: ForwardFederation) -> PendingAnswer<Box<RawValue>> {
        assert!(caller.relayed().is_none(), "nothing is passed on to a third domain");
        Box::pin(async move {
            let (issuer, method) =
                (forward.target_issuer.unwrap(), format!("{}.{}", forward.namespace, forward.method));
            self.calls.lock().push((issuer.clone(), method.clone()));
            if self.down.lock().contains(&issuer) {
                return Err(RpcError::plain(codes::FEDERATION_UNREACHABLE));
            }
            if let Some(reason) = *self.refused.lock() {
                let unreachable = reason.starts_with("domain_");
                let code =
                    if unreachable { codes::FEDERATION_UNREACHABLE } else { codes::FEDERATION_REFUSED };
                return Err(RpcError::plain(code).with("reason", reason));
            }
            let mesh = self.to.lock().get(&issuer).cloned();
            let mesh = mesh.ok_or_else(|| RpcError::plain(codes::FEDERATION_UNREACHABLE))?;
            let caller = match forward.caller_aid {
                Some(aid) => {
                    let (device, slot) = (forward.device_id.unwrap(), forward.slot_id.unwrap());
                    foreign(&self.from, aid, device, slot)
                }
                None => service_of(&self.from, "task"),
            };
            mesh.call(caller, &method, Some(forward.params)).await
        })
    }
}

fn relayed(issuer: &str) -> Relayed {
    Relayed { from_issuer: issuer.to_owned(), relay_id: "r".to_owned(), depth: 0 }
}

fn service_of(issuer: &str, service: &str) -> Caller {
    Caller::ForeignService { service: service.to_owned(), relayed: relayed(issuer) }
}

fn foreign(issuer: &str, aid: Aid, device: DeviceId, slot: SlotId) -> Caller {
    let session = CallingAgent {
        aid,
        device,
        slot,
        connection: 0,
        address: [0, 0, 0, 0].into(),
        connected_at_ms: 0,
        network: None,
        generation: Generation::default(),
        trace: None,
    };
    Caller::Foreign(session, relayed(issuer))
}

struct TaskDomain {
    tasks: TestTasks,
    links: Arc<TestLinks>,
}

impl TaskDomain {
    async fn open(issuer: &str) -> TaskDomain {
        let tasks = TestTasks::of(
            TestWorld::with(&["ca", "auth", "agent"]).and(open).of_issuer(issuer).await,
            Settings::default(),
        )
        .await;
        let links = Arc::new(TestLinks {
            from: issuer.to_owned(),
            to: Mutex::default(),
            down: Mutex::default(),
            refused: Mutex::default(),
            calls: Mutex::default(),
        });
        tasks.test.world.mesh.add_local("gateway", Methods::default());
        tasks.test.world.mesh.set_forwarder(links.clone());
        TaskDomain { tasks, links }
    }

    fn link(&self, other: &TaskDomain) {
        let issuer = other.tasks.test.world.issuer.clone();
        self.links.to.lock().insert(issuer, other.tasks.test.world.mesh.clone());
    }

    /// An agent with a long connection.
    async fn agent(&self, name: &str) -> TestAgent {
        let agent = self.tasks.test.register(name).await;
        self.tasks.arrive(&agent, "", "", 2);
        agent
    }

    fn down(&self, issuer: &str) {
        self.links.down.lock().insert(issuer.to_owned());
    }

    fn up(&self, issuer: &str) {
        self.links.down.lock().remove(issuer);
    }

    /// Tells other domains what is new.
    async fn tell(&self) {
        self.tasks.events().await;
        for issuer in self.tasks.service.relays.waiting() {
            self.tasks.service.tell_new(&issuer).await;
        }
    }

    /// Tells other domains what is due in the outbox; gives those that were tried.
    async fn tell_due(&self) -> Vec<String> {
        let (service, outbox) = (&*self.tasks.service, &self.tasks.service.store.outbox);
        let due = outbox.due().await.unwrap();
        for issuer in &due {
            outbox.send_to(service, issuer).await;
        }
        due
    }

    async fn list(&self, agent: &TestAgent, params: Value) -> Vec<Value> {
        self.tasks.ok(agent, "list", params).await["items"].as_array().unwrap().clone()
    }

    /// How many tasks other domains have yet to learn of.
    async fn waiting(&self) -> i64 {
        self.tasks.service.store.outbox.count().await.unwrap()
    }
}

/// Alice is near, Bob is far, and both domains know each other.
struct TwoTaskDomains {
    near: TaskDomain,
    far: TaskDomain,
    alice: TestAgent,
    bob: TestAgent,
}

impl TwoTaskDomains {
    async fn open() -> TwoTaskDomains {
        let (near, far) = (TaskDomain::open(NEAR).await, TaskDomain::open(FAR).await);
        near.link(&far);
        far.link(&near);
        let (alice, bob) = (near.agent("alice").await, far.agent("bobb").await);
        TwoTaskDomains { near, far, alice, bob }
    }

    /// A task of Alice for Bob, of which his domain was told.
    async fn submitted(&self) -> String {
        let create = json!({ "to": self.bob.aid, "input": text("do it"), "title": "a review" });
        let task = id(&self.near.tasks.ok(&self.alice, "create", create).await);
        self.near.tell().await;
        task
    }

    async fn working(&self) -> String {
        let task = self.submitted().await;
        self.far.tasks.ok(&self.bob, "accept", json!({ "task_id": task })).await;
        self.near.tell().await;
        task
    }

    /// What was told in both domains since the last time.
    async fn told(&self) -> (Vec<(String, String)>, Vec<(String, String)>) {
        self.near.tell().await;
        (self.near.tasks.told().await, self.far.tasks.told().await)
    }
}
