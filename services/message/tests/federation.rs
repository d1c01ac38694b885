//! Two domains and a gateway between them that forwards calls as gateways do: what crosses, and what does not.

use super::*;
use certs::{Curve, Key};
use kernel::{Aid, Event, Generation, Mesh, Relayed, SlotId, World, codes, forwarded_item};
use parking_lot::Mutex;
use proto_schemas::requests::gateway::{
    DispatchEvent, FederatedEvent, ForwardFederation, ForwardFederationBatch, ForwardedCall, ForwardedCalls,
};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashMap;
use std::time::Duration;
use tempfile::TempDir;

mod encrypted;
mod events;
mod link_lost;
mod outbox;
mod recall;
mod receive;
mod send;
mod tool_calls;

/// A domain of its own. Its gateway forwards to the other one, unless that cannot be reached.
pub(super) struct Domain {
    pub settings: Settings,
    pub world: World,
    pub gateway: Arc<TestGateway>,
    pub events: Arc<Mutex<Vec<Event>>>,
    _folder: TempDir,
}

/// Does what a gateway does for a service, and records what it was asked.
#[derive(Default)]
pub(super) struct TestGateway {
    pub issuer: String,
    pub peer: Mutex<Option<Arc<Mesh>>>,
    /// Other domains than that one, some of which cannot be reached.
    pub others: Mutex<HashMap<String, Option<Arc<Mesh>>>>,
    /// The error of every call to the other domain.
    pub fails: Mutex<Option<proto_schemas::Code>>,
    pub forwards: Mutex<Vec<ForwardFederation>>,
    pub dispatched: Mutex<Vec<DispatchEvent>>,
    /// How many calls were in each batch.
    pub batches: Mutex<Vec<usize>>,
    /// The other domain executes the calls, and its answers are lost.
    pub loses_answers: Mutex<bool>,
    /// The peer link breaks during each call, after it arrived or before.
    pub breaks: Mutex<Option<bool>>,
    /// What the other domain answers to every call.
    pub answers: Mutex<Option<Value>>,
    /// No batch is answered.
    pub hangs: Mutex<bool>,
}

/// Alice's domain and Dave's, each with a gateway to the other.
pub(super) async fn domains() -> (Domain, Domain) {
    let (here, there) = (Domain::open("aid.com").await, Domain::open("aid.net").await);
    *here.gateway.peer.lock() = Some(there.world.mesh.clone());
    *there.gateway.peer.lock() = Some(here.world.mesh.clone());
    (here, there)
}

impl Domain {
    pub async fn open(issuer: &str) -> Domain {
        Domain::open_with(issuer, None).await
    }

    pub async fn open_with(issuer: &str, peer_retention: Option<Duration>) -> Domain {
        Domain::open_after(issuer, peer_retention, async |_| {}).await
    }

    /// The same on a store in which something is already.
    pub async fn open_after(
        issuer: &str,
        peer_retention: Option<Duration>,
        fill: impl AsyncFnOnce(&World),
    ) -> Domain {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::local(issuer, folder.path(), testing::store());
        world.clock = Clock::manual(1_794_701_761_000);
        fill(&world).await;
        let peer_retention_seconds = peer_retention.map_or(0, |retention| retention.as_secs());
        let settings = Settings { peer_retention_seconds, ..Settings::default() };
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let seen = events.clone();
        world.bus.listen(move |event| seen.lock().push(event.clone()));
        let gateway = Arc::new(TestGateway { issuer: issuer.to_owned(), ..TestGateway::default() });
        world.mesh.add_local("gateway", gateway.methods());
        TestWorld::with(&["ca", "auth", "agent"]).add_to(&world).await;
        let mut service = open(&world, &settings).await.unwrap();
        service.tasks.clear();
        world.add(service);
        Domain { world, settings, gateway, events, _folder: folder }
    }

    /// An agent with its first device.
    pub async fn agent(&self, name: &str, device: &str) -> TestAgent {
        let agent = self.register(name).await;
        self.join(&agent, device).await;
        agent
    }

    pub async fn register(&self, name: &str) -> TestAgent {
        let (aid, key) = (format!("{name}.{}", self.world.issuer), Key::generate(Curve::P256));
        let request = json!({ "aid": aid, "public_key": testing::spki(&key), "curve": "P-256" });
        let created = self.call_as(Caller::Unauthenticated(None), "auth.create_aid", request).await.unwrap();
        TestAgent { aid, key, cert: created["cert"].as_str().unwrap().to_owned() }
    }

    pub async fn join(&self, agent: &TestAgent, device: &str) {
        let params = json!({ "aid": agent.aid, "device_id": device });
        self.call_as(Caller::Operator, "message.session_opened", params).await.unwrap();
    }

    pub async fn call_as(&self, caller: Caller, method: &str, params: Value) -> Result<Value, RpcError> {
        let answer = self.world.mesh.call(caller, method, Some(to_raw_value(&params).unwrap())).await?;
        Ok(serde_json::from_str(answer.get()).unwrap())
    }

    pub async fn call(
        &self,
        who: (&TestAgent, &str),
        method: &str,
        params: Value,
    ) -> Result<Value, RpcError> {
        self.call_as(caller(who), method, params).await
    }

    /// Every row of an inbox.
    pub async fn rows(&self, who: (&TestAgent, &str)) -> Vec<Value> {
        let page = self.call(who, "message.pull", json!({ "limit": 200 })).await.unwrap();
        page["messages"].as_array().unwrap().clone()
    }

    pub fn published(&self, method: &str) -> Vec<Value> {
        let events = self.events.lock();
        let published = events.iter().filter(|event| event.method == method);
        published.map(|event| serde_json::from_str(event.params.get()).unwrap()).collect()
    }
}

pub(super) fn caller((agent, device): (&TestAgent, &str)) -> Caller {
    let Caller::Agent(session) = agent.caller() else { unreachable!() };
    Caller::Agent(CallingAgent { device: DeviceId::parse(device).unwrap(), ..session })
}

/// The services own the mesh and the mesh owns the services: without this their connections to the store would stay open.
impl Drop for Domain {
    fn drop(&mut self) {
        for namespace in proto_schemas::namespaces() {
            self.world.mesh.remove(namespace.name);
        }
    }
}

/// The caller that the gateway of the receiving domain makes of a relay.
pub(super) fn foreign(aid: &str, device: &str) -> Caller {
    let aid = Aid::parse(aid).unwrap();
    let from_issuer = aid.issuer().to_owned();
    let session = CallingAgent {
        aid,
        device: DeviceId::parse(device).unwrap(),
        slot: SlotId::default(),
        connection: 0,
        address: [0, 0, 0, 0].into(),
        connected_at_ms: 0,
        network: None,
        generation: Generation::default(),
        trace: None,
    };
    Caller::Foreign(session, Relayed { from_issuer, relay_id: "r-1".to_owned(), depth: 0 })
}

impl TestGateway {
    fn methods(self: &Arc<TestGateway>) -> Methods {
        Rpc::new(self.clone())
            .method(TestGateway::forward)
            .method(TestGateway::forward_batch)
            .method(TestGateway::dispatch)
            .into()
    }

    async fn forward(
        self: Arc<TestGateway>,
        caller: Caller,
        forward: ForwardFederation,
    ) -> Result<ForwardedCall, RpcError> {
        assert!(matches!(caller, Caller::Service(service) if service == "message"));
        let target_issuer = forward.target_issuer.clone().unwrap();
        let result = self.relay(&target_issuer, forward).await?;
        Ok(ForwardedCall { result, target_issuer, relay_id: "r-1".to_owned(), elapsed_ms: 1 })
    }

    async fn forward_batch(
        self: Arc<TestGateway>,
        _: Caller,
        batch: ForwardFederationBatch,
    ) -> Result<ForwardedCalls, RpcError> {
        let target_issuer = batch.target_issuer.unwrap();
        self.batches.lock().push(batch.items.len());
        if *self.hangs.lock() {
            return std::future::pending().await;
        }
        let mut results = Vec::new();
        for forward in batch.items {
            results.push(forwarded_item(self.relay(&target_issuer, forward).await));
        }
        Ok(ForwardedCalls { results, target_issuer })
    }

    async fn dispatch(
        self: Arc<TestGateway>,
        _: Caller,
        event: DispatchEvent,
    ) -> Result<FederatedEvent, RpcError> {
        self.dispatched.lock().push(event);
        Ok(FederatedEvent::default())
    }

    async fn relay(&self, issuer: &str, forward: ForwardFederation) -> Result<Box<RawValue>, RpcError> {
        let caller_aid = forward.caller_aid.clone().unwrap();
        assert_eq!(caller_aid.issuer(), self.issuer, "a gateway forwards for its own agents");
        self.forwards.lock().push(forward.clone());
        let other = self.others.lock().get(issuer).cloned();
        let (fails, peer) = (*self.fails.lock(), other.unwrap_or_else(|| self.peer.lock().clone()));
        if let Some(code) = fails {
            return Err(RpcError::plain(code));
        }
        if let Some(answer) = &*self.answers.lock() {
            return Ok(to_raw_value(answer).unwrap());
        }
        let Some(peer) = peer else { return Err(RpcError::plain(codes::FEDERATION_UNREACHABLE)) };
        let caller = foreign(caller_aid.as_str(), forward.device_id.as_ref().unwrap().as_str());
        let method = format!("{}.{}", forward.namespace, forward.method);
        let lost = || RpcError::plain(codes::FEDERATION_TIMEOUT).with("reason", "link_lost");
        let breaks = *self.breaks.lock();
        if breaks == Some(false) {
            return Err(lost());
        }
        let answer = peer.call(caller, &method, Some(forward.params)).await;
        if breaks.is_some() {
            return Err(lost());
        }
        if *self.loses_answers.lock() {
            return Err(RpcError::plain(codes::FEDERATION_TIMEOUT));
        }
        answer.map_err(|error| error.with("federated", true).with("target_issuer", issuer))
    }

    /// The domains that were asked to recall something, in the order of their names.
    pub fn asked_to_recall(&self) -> Vec<String> {
        let forwards = self.forwards.lock();
        let recalls = forwards.iter().filter(|forward| forward.method == "recall");
        let mut asked: Vec<String> = recalls.filter_map(|forward| forward.target_issuer.clone()).collect();
        asked.sort();
        asked
    }

    /// The methods that were forwarded.
    pub fn methods_asked(&self) -> Vec<String> {
        self.forwards.lock().iter().map(|forward| forward.method.clone()).collect()
    }
}
