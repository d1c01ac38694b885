//! What one user or owner makes the server send does not delay what others are told.

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::agent::agents_http::{answer, manifest, next_event};
use crate::support::agent::{ConnectedAgent, TestIdentity, random_hex, text};
use crate::support::wait::within;
use crate::support::{TestServer, now};

/// As many changes as a client can make. While a flood goes on for long on a slow machine, clients that only wait answer no ping.
const BUSY: &str = "limits.calls_per_second = 1000000\nlimits.classes.\"h2a.write\" = 1000000\nlimits.classes.\"agent.write\" = 1000000\n\
                    limits.ping_interval_ms = 600000";

/// An agent that has its owner's AID; gives its id.
async fn registered(owner: &ConnectedAgent, webhook: Option<&str>) -> String {
    let mut params = json!({ "name": "Helper", "capability_manifest": manifest(&["path"]) });
    if let Some(url) = webhook {
        params["webhook_url"] = json!(url);
    }
    text(&owner.call("agent.create", &params).await["agent"]["id"])
}

/// An agent with an AID of its own, whose key agrees to its owner; gives its id.
async fn registered_as(agent: &TestIdentity, owner: &ConnectedAgent, webhook: &str) -> String {
    let (timestamp, nonce) = (now(), random_hex(16));
    let signed =
        format!("aun-agent-registration-v1\n{}\n{}\nHelper\n{timestamp}\n{nonce}", agent.aid, owner.aid());
    let proof = json!({
        "aid": agent.aid, "cert_fingerprint": agent.certificate().fingerprint(), "timestamp": timestamp, "nonce": nonce,
        "signature": agent.sign(&signed),
    });
    let params = json!({
        "name": "Helper", "capability_manifest": manifest(&["path"]), "webhook_url": webhook, "proof": proof,
    });
    text(&owner.call("agent.create", &params).await["agent"]["id"])
}

/// A relation of a user with an agent; gives its id.
async fn granted(user: &ConnectedAgent, agent: &str) -> String {
    let grant = json!({ "agent_id": agent, "granted_scopes": ["filesystem:read"] });
    text(&user.call("h2a.grant", &grant).await["relation"]["id"])
}

fn update(relation: &str) -> Value {
    json!({ "id": relation, "granted_scopes": ["filesystem:read"] })
}

/// The next event that says that a relation was updated.
async fn updated(user: &ConnectedAgent) {
    while next_event(user, "event/h2a.relation_changed").await["change"] != "updated" {}
}

/// A user changes a relation thousands of times; then somebody else changes one. All events were published in the order of their
/// changes, so that event came after all of the others.
#[tokio::test]
async fn the_changes_of_one_user_do_not_delay_the_event_of_another() {
    const CHANGES: usize = 1500;
    let server = TestServer::with_one_gateway(BUSY).await;
    let (owner, mallory, alice) =
        (server.agent("owner").await, server.agent("mallory").await, server.agent("alice").await);
    let (flooded, quiet) = (registered(&owner, None).await, registered(&alice, None).await);
    let (relation, other) = (granted(&mallory, &flooded).await, granted(&alice, &quiet).await);

    // Two more devices make the changes, so that the first one only hears of them.
    let devices = [
        server.connect_device(&mallory, "one", "s").await,
        server.connect_device(&mallory, "two", "s").await,
    ];
    let changes = vec![update(&relation); CHANGES / devices.len()];
    let made = devices.iter().map(|device| device.call_many("h2a.update", &changes));
    let made = futures_util::future::join_all(made).await;
    let failed = made.iter().flatten().filter(|change| change.is_err()).count();
    assert_eq!(failed, 0, "every change is accepted");
    let told = mallory.events_so_far().await.len();
    alice.call("h2a.update", &update(&other)).await;
    within("the event of another user", updated(&alice)).await;
    let meanwhile = mallory.events_so_far().await.len();
    assert!(meanwhile <= 50, "{meanwhile} events of the flood came first, after {told}");
}

/// Accepts requests and never answers; tells of each.
async fn hanging(tasks: &mut JoinSet<()>) -> (String, mpsc::UnboundedReceiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}/hook", listener.local_addr().expect("it listens"));
    let (sender, received) = mpsc::unbounded_channel();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (url, received)
}

/// The webhooks of one owner's agents hang, each at an address of its own; another owner's is called after them. It waited for as
/// many of them as were called at once, ten seconds each, again and again.
#[tokio::test]
async fn hanging_webhooks_of_one_owner_do_not_delay_those_of_another() {
    const HANGING: usize = 160;
    let settings = format!("{BUSY}\nagent.webhook.allow_private = true");
    let server = TestServer::with_one_gateway(&settings).await;
    let mut tasks = JoinSet::new();
    let (mallory, alice) = (server.agent("mallory").await, server.agent("alice").await);
    let (first_url, mut first) = hanging(&mut tasks).await;
    let (second_url, mut second) = hanging(&mut tasks).await;
    for number in 0..HANGING {
        let url = if number % 2 == 0 { &first_url } else { &second_url };
        let agent = server.register(&format!("hook{number}")).await;
        let agent = registered_as(&agent, &mallory, url).await;
        granted(&mallory, &agent).await;
    }
    let mut held = vec![within("a request that hangs", first.recv()).await.expect("it is called")];

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}/hook", listener.local_addr().expect("it listens"));
    let agent = registered(&alice, Some(&url)).await;
    granted(&alice, &agent).await;
    let (stream, _) = within("the webhook of another owner", listener.accept()).await.expect("a request");
    let (_, body) = answer(stream).await;
    assert!(body.contains("relation.established"), "{body}");

    while let Ok(stream) = first.try_recv() {
        held.push(stream);
    }
    while let Ok(stream) = second.try_recv() {
        held.push(stream);
    }
    assert!(held.len() <= 3 * 4, "{} requests of one owner in the time of one", held.len());
}

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
