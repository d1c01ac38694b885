//! Agents, users and a webhook that does what a test wants.

use crate::outboxes::USERS;
use crate::sending::{
    MessageDeliveries, UserEvents, WebhookAnswer, WebhookDeliveries, WebhookRequest, WebhookSender,
};
use crate::{AgentService, Settings, rpc};
use kernel::{AgentRemoval, Aid, Delivery, DeviceId, PresentSession, RpcError, Service, SlotId};
use outbound::{OutboundAnswer, OutboundError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use testing::{TestAgent, TestWorld};

/// What a webhook answers when it never does.
pub(super) const HANGS: u16 = 0;

/// Keeps what is sent to webhooks, and answers 200 unless a test says otherwise.
#[derive(Default)]
pub(super) struct TestWebhooks {
    pub posts: Mutex<Vec<WebhookRequest>>,
    pub answers: Mutex<HashMap<String, Result<u16, String>>>,
    /// The header of every answer.
    pub retry_after: Mutex<Option<String>>,
}

impl WebhookSender for TestWebhooks {
    fn post(&self, post: WebhookRequest) -> WebhookAnswer {
        let answer = self.answers.lock().get(&post.url).cloned().unwrap_or(Ok(200));
        self.posts.lock().push(post);
        let retry_after = self.retry_after.lock().clone();
        Box::pin(async move {
            match answer {
                Ok(HANGS) => pending().await,
                other => {
                    other.map(|status| OutboundAnswer { status, retry_after }).map_err(OutboundError::Network)
                }
            }
        })
    }
}

impl TestWebhooks {
    pub fn answer(&self, url: &str, answer: Result<u16, String>) {
        self.answers.lock().insert(url.to_owned(), answer);
    }

    /// The type of everything that was sent to a URL.
    pub fn kinds(&self, url: &str) -> Vec<String> {
        let posts = self.posts.lock();
        let bodies = posts.iter().filter(|post| post.url == url).map(|post| post.body.clone());
        bodies.map(|body| text(&serde_json::from_str::<Value>(&body).unwrap()["type"])).collect()
    }
}

/// A world whose agent service does its work when it is told to.
pub(super) struct TestAgents {
    pub test: TestWorld,
    pub service: Arc<AgentService>,
    pub webhooks: Arc<TestWebhooks>,
    pub alice: TestAgent,
    pub bob: TestAgent,
    pub carol: TestAgent,
}

impl TestAgents {
    pub async fn open() -> TestAgents {
        TestAgents::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> TestAgents {
        TestAgents::with_services(settings, &[]).await
    }

    pub async fn with_message_service() -> TestAgents {
        TestAgents::with_services(Settings::default(), &["message"]).await
    }

    /// With these services beside those that are always there.
    pub async fn with_services(settings: Settings, others: &[&str]) -> TestAgents {
        let plan = TestWorld::with(&["ca", "auth"]).and(crate::open).and_with(others);
        let (test, webhooks) = (plan.await, Arc::<TestWebhooks>::default());
        let service = AgentService::open_with(&test.world, &settings, webhooks.clone()).await.unwrap();
        let methods = rpc(service.clone());
        let removal = AgentRemoval::nothing_kept("a test removes it by itself");
        test.world.add(Service::new(&["agent", "h2a"], methods, removal));
        let (alice, bob, carol) =
            (test.register("alice").await, test.register("bobb").await, test.register("carol").await);
        TestAgents { test, service, webhooks, alice, bob, carol }
    }

    pub async fn call(&self, who: &TestAgent, method: &str, params: Value) -> Result<Value, RpcError> {
        self.test.call_as(who.caller(), method, params).await
    }

    pub async fn ok(&self, who: &TestAgent, method: &str, params: Value) -> Value {
        self.call(who, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The code of the catalogue with which a call is refused.
    pub async fn refused(&self, who: &TestAgent, method: &str, params: Value) -> String {
        let error = self.call(who, method, params).await.expect_err(method);
        text(error.data("kind").unwrap()).to_ascii_uppercase()
    }

    /// An agent of alice's, with the sample manifest; gives its id.
    pub async fn agent(&self) -> String {
        let made = self.ok(
            &self.alice,
            "agent.create",
            json!({ "name": "Helper", "capability_manifest": sample() }),
        );
        text(&made.await["agent"]["id"])
    }

    pub async fn patch(&self, id: &str, manifest: Value) -> Value {
        self.ok(&self.alice, "agent.update", json!({ "id": id, "capability_manifest": manifest })).await
    }

    /// A relation of somebody with an agent; gives its id.
    pub async fn grant(&self, who: &TestAgent, agent: &str, scopes: &[&str]) -> String {
        let params = json!({ "agent_id": agent, "granted_scopes": scopes });
        text(&self.ok(who, "h2a.grant", params).await["relation"]["id"])
    }

    /// The only relation that somebody has.
    pub async fn relation(&self, who: &TestAgent) -> Value {
        let mut page = self.ok(who, "h2a.list", json!({})).await;
        assert_eq!(page["relations"].as_array().unwrap().len(), 1, "{page}");
        page["relations"][0].take()
    }

    pub fn connect(&self, who: &TestAgent, connection: u64) {
        let session = PresentSession {
            connection,
            device: DeviceId::default(),
            slot: SlotId::default(),
            address: [127, 0, 0, 1].into(),
            delivery: Delivery::default(),
        };
        self.test.world.presence.arrive(&Aid::parse(&who.aid).unwrap(), session);
    }

    /// Publishes everything that waits, and gives the events for users since the last time: whom, and which with its parameters.
    pub async fn told(&self) -> Vec<(String, String, Value)> {
        publish(&self.service).await;
        let events = std::mem::take(&mut *self.test.events.lock());
        let of_users = events.into_iter().filter_map(|event| {
            let name = event.method.strip_prefix("event/h2a.")?.to_owned();
            let params: Value = serde_json::from_str(event.params.get()).unwrap();
            let schema = proto_schemas::find_event(&event.method).unwrap();
            let exact = proto_schemas::exact(&schema.doc()["params"]);
            assert!(jsonschema::is_valid(&exact, &params), "{params}");
            Some((format!("{:?}", event.to), name, params))
        });
        of_users.collect()
    }

    /// Sends what is due to webhooks, of each agent one; returns how many requests that were.
    pub async fn deliver(&self) -> usize {
        let (before, outbox) = (self.webhooks.posts.lock().len(), &self.service.outboxes.webhooks);
        for agent_id in outbox.due().await.unwrap() {
            outbox.send_to(&WebhookDeliveries(self.service.clone()), &agent_id).await;
        }
        self.webhooks.posts.lock().len() - before
    }

    /// Asks for what waits, and sends to webhooks the messages that are due; returns how many requests that were.
    pub async fn deliver_messages(&self) -> usize {
        self.service.mark_waiting().await.unwrap();
        self.deliver_marked().await
    }

    /// Sends what is marked already.
    pub async fn deliver_marked(&self) -> usize {
        let (before, outbox) = (self.webhooks.posts.lock().len(), &self.service.outboxes.messages);
        for aid in outbox.due().await.unwrap() {
            outbox.send_to(&MessageDeliveries(self.service.clone()), &aid).await;
        }
        self.webhooks.posts.lock().len() - before
    }

    /// Of those only the ones about manifests.
    pub async fn told_of_manifests(&self) -> Vec<(String, String, Value)> {
        let mut told = self.told().await;
        told.retain(|(_, name, _)| name != "relation_changed");
        told
    }
}

/// What the task of the events does.
pub(super) async fn publish(service: &Arc<AgentService>) {
    service.outboxes.events.send_to(&UserEvents(service.clone()), USERS).await;
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}

/// The sample of the specification: the manifest of the first example.
pub(super) fn sample() -> Value {
    let create = proto_schemas::find("agent.create").unwrap().doc();
    create["examples"][0]["params"]["capability_manifest"].clone()
}

/// The same with another member that its tool needs: a breaking change.
pub(super) fn with_required_member() -> Value {
    let mut manifest = sample();
    let schema = &mut manifest["tools"][0]["input_schema"];
    schema["properties"]["encoding"] = json!({ "type": "string" });
    schema["required"] = json!(["path", "encoding"]);
    manifest
}

/// The same with a second scope, which no tool uses: a breaking change.
pub(super) fn with_scope(manifest: Value, id: &str, sensitivity: &str) -> Value {
    let mut manifest = manifest;
    let scope = json!({
        "id": id,
        "label_i18n_key": "agent.scope.label",
        "sensitivity": sensitivity,
        "label_fallback": "A scope",
        "description_fallback": "What it is for"
    });
    manifest["permission_scopes"].as_array_mut().unwrap().push(scope);
    manifest
}

/// The same with another version of the agent: not a breaking change.
pub(super) fn with_version(version: &str) -> Value {
    let mut manifest = sample();
    manifest["agent_version"] = json!(version);
    manifest
}
