//! Agents and users of other domains: calls go to the domain of the agent, and events to the domain of the user.

use super::support::{TestAgents, with_required_member};
use kernel::{AgentRemoval, Aid, Caller, CallingAgent, Relayed, Rpc, RpcError, Service};
use parking_lot::Mutex;
use proto_schemas::requests::gateway::{DispatchEvent, FederatedEvent, ForwardFederation, ForwardedCall};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::sync::Arc;

/// Stands in for the gateway: answers every call to another domain the same, and records what it was asked.
#[derive(Default)]
struct RecordingGateway {
    answer: Mutex<Value>,
    forwards: Mutex<Vec<ForwardFederation>>,
    dispatched: Mutex<Vec<DispatchEvent>>,
}

impl RecordingGateway {
    async fn forward(
        self: Arc<Self>,
        _: Caller,
        forward: ForwardFederation,
    ) -> Result<ForwardedCall, RpcError> {
        self.forwards.lock().push(forward);
        let result = to_raw_value(&*self.answer.lock()).map_err(RpcError::internal)?;
        let (target_issuer, relay_id) = ("other.example".to_owned(), "r-1".to_owned());
        Ok(ForwardedCall { result, target_issuer, relay_id, elapsed_ms: 1 })
    }

    async fn dispatch(self: Arc<Self>, _: Caller, event: DispatchEvent) -> Result<FederatedEvent, RpcError> {
        self.dispatched.lock().push(event);
        Ok(FederatedEvent::default())
    }
}

async fn with_gateway() -> (TestAgents, Arc<RecordingGateway>) {
    let (agents, gateway) = (TestAgents::open().await, Arc::<RecordingGateway>::default());
    let methods =
        Rpc::new(gateway.clone()).method(RecordingGateway::forward).method(RecordingGateway::dispatch);
    let removal = AgentRemoval::nothing_kept("it only records what it is asked");
    agents.test.world.add(Service::new(&["gateway"], methods, removal));
    (agents, gateway)
}

/// Somebody of another domain, as its gateway vouches for it.
fn foreign(agents: &TestAgents) -> Caller {
    let Caller::Agent(session) = agents.bob.caller() else { unreachable!() };
    let session = CallingAgent { aid: Aid::parse("dave.other.example").unwrap(), ..session };
    let relayed = Relayed { from_issuer: "other.example".to_owned(), relay_id: "r-2".to_owned(), depth: 0 };
    Caller::Foreign(session, relayed)
}

#[tokio::test]
async fn a_call_about_an_agent_of_another_domain_goes_there() {
    let (agents, gateway) = with_gateway().await;
    let id = agents.agent().await;
    let relation = agents.grant(&agents.bob, &id, &[]).await;
    let shown = agents.ok(&agents.bob, "h2a.get", json!({ "id": relation })).await;
    *gateway.answer.lock() = json!({ "relation": shown["relation"], "created": true });
    let grant = json!({ "agent_id": "helper.other.example", "granted_scopes": ["a:b"] });
    assert_eq!(agents.ok(&agents.bob, "h2a.grant", grant.clone()).await["relation"], shown["relation"]);
    {
        let forwards = gateway.forwards.lock();
        let forward = &forwards[0];
        assert_eq!((forward.namespace.as_str(), forward.method.as_str()), ("h2a", "grant"));
        assert_eq!(forward.target_issuer.as_deref(), Some("other.example"));
        assert_eq!(forward.caller_aid.as_ref().map(Aid::as_str), Some(agents.bob.aid.as_str()));
        assert_eq!(serde_json::from_str::<Value>(forward.params.get()).unwrap(), grant);
    }
    // A domain of an earlier build requires the scopes, and says nothing of texts; another one may say what it likes.
    agents.ok(&agents.bob, "h2a.grant", json!({ "agent_id": "helper.other.example" })).await;
    let forwarded = gateway.forwards.lock().pop().unwrap();
    assert_eq!(serde_json::from_str::<Value>(forwarded.params.get()).unwrap()["granted_scopes"], json!([]));
    let about = json!({ "id": "helper.other.example" });
    let mut theirs = agents.ok(&agents.bob, "agent.get", json!({ "id": id })).await;
    theirs["agent"]["scope_texts"] =
        json!({ "filesystem:read": { "en": { "label": "Nothing", "description": "" } } });
    *gateway.answer.lock() = theirs;
    let read = agents.ok(&agents.bob, "agent.get", about).await;
    assert_eq!(read["agent"]["scope_texts"]["filesystem:read"]["en"]["label"], "Read local files");
    gateway.forwards.lock().pop();
    *gateway.answer.lock() = json!("unreadable");
    let error =
        agents.call(&agents.bob, "agent.get", json!({ "id": "helper.other.example" })).await.unwrap_err();
    assert_eq!(error.code(), -32012);
    let third = json!({ "agent_id": "helper.third.example", "granted_scopes": [] });
    let refused = agents.test.call_as(foreign(&agents), "h2a.grant", third).await.unwrap_err();
    assert_eq!(
        (refused.code(), gateway.forwards.lock().len()),
        (-32008, 2),
        "nothing is passed on to a third"
    );
}

#[tokio::test]
async fn a_user_of_another_domain_is_told_through_the_gateway() {
    let (agents, gateway) = with_gateway().await;
    let id = agents.agent().await;
    let grant = json!({ "agent_id": agents.alice.aid, "granted_scopes": ["filesystem:read"] });
    agents.test.call_as(foreign(&agents), "h2a.grant", grant).await.unwrap();
    agents.told().await;
    gateway.dispatched.lock().clear();
    agents.patch(&id, with_required_member()).await;
    agents.told().await;
    let dispatched = std::mem::take(&mut *gateway.dispatched.lock());
    assert_eq!(dispatched.len(), 1);
    assert_eq!(dispatched[0].event, "h2a.reauth_required");
    assert_eq!(dispatched[0].targets.aids[0].as_str(), "dave.other.example");
    let params: Value = serde_json::from_str(dispatched[0].payload.get()).unwrap();
    assert_eq!(params["agent_aid"], json!(agents.alice.aid), "it is about an agent of ours");
    for method in ["agent.update", "agent.delete", "h2a.list"] {
        let refused = agents.test.call_as(foreign(&agents), method, json!({ "id": id })).await.unwrap_err();
        assert_eq!(refused.code(), -32601, "{method} does not cross");
    }
}
