//! What waited in the tables of the build before is sent by this one: nothing is lost, and its order is kept.

use super::support::{TestAgents, publish};
use crate::sending::WebhookDeliveries;
use crate::{AgentService, Settings};
use serde_json::{Value, json};
use std::sync::Arc;

const URL: &str = "https://hooks.example/in";

/// The tables as the migration before made them.
const OLD_TABLES: [&str; 8] = [
    "DROP TABLE event_outbox",
    "DROP TABLE event_destination",
    "DROP TABLE webhook_outbox",
    "DROP TABLE webhook_destination",
    "DROP TABLE webhook_ended",
    "CREATE TABLE agent_event (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, event TEXT NOT NULL, payload TEXT NOT NULL,
         targets TEXT, after_relation TEXT NOT NULL, leased_until BIGINT NOT NULL)",
    "CREATE TABLE delivery (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
         status TEXT NOT NULL, attempts BIGINT NOT NULL, next_at BIGINT NOT NULL, leased_until BIGINT NOT NULL,
         last_error TEXT, created_at BIGINT NOT NULL, ended_at BIGINT)",
    "DELETE FROM _sqlx_migrations WHERE version IN (4, 6)",
];

/// Fills the old tables for an agent, and opens the service on them.
async fn reopened(agents: &TestAgents, fill: Vec<String>) -> Arc<AgentService> {
    let world = &agents.test.world;
    let db = testing::db_before(world, "agent", &sqlx::migrate!("./migrations"), i64::MAX).await;
    for statement in OLD_TABLES.iter().map(|text| (*text).to_owned()).chain(fill) {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(db.write_alone()).await.unwrap();
    }
    db.close().await;
    AgentService::open_with(world, &Settings::default(), agents.webhooks.clone()).await.unwrap()
}

#[tokio::test]
async fn events_that_waited_are_published_in_order() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    agents.grant(&agents.bob, &id, &[]).await;
    let last_relation = agents.grant(&agents.carol, &id, &[]).await;
    agents.told().await;
    agents.connect(&agents.bob, 1);
    agents.connect(&agents.carol, 2);
    // Everybody was told of the first before the process ended.
    let event = |n: i64, targets: &str, after: &str| {
        let payload = json!({ "number": n, "text": "it's" }).to_string().replace('\'', "''");
        format!(
            "INSERT INTO agent_event VALUES ('{n}', '{id}', 'event/h2a.manifest_updated', '{payload}', {targets}, '{after}', 9)"
        )
    };
    let to_bob = format!("'[\"{}\"]'", agents.bob.aid);
    let filled = vec![event(3, &to_bob, ""), event(1, "NULL", &last_relation), event(2, "NULL", "")];
    let next = reopened(&agents, filled).await;
    assert_eq!(next.outboxes.events.count().await.unwrap(), 3);
    agents.test.events.lock().clear();
    publish(&next).await;
    let events = agents.test.events.lock();
    let published = events.iter().filter(|event| event.method == "event/h2a.manifest_updated");
    let told: Vec<(bool, i64)> = published
        .map(|event| {
            let params: Value = serde_json::from_str(event.params.get()).unwrap();
            assert_eq!(params["text"], "it's");
            (format!("{:?}", event.to).contains(&agents.bob.aid), params["number"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(told, [(true, 2), (false, 2), (true, 3)], "nobody is told of the first again");
}

#[tokio::test]
async fn deliveries_that_waited_are_sent_in_order_with_the_attempts_that_were_made() {
    let agents = TestAgents::open().await;
    let made =
        agents.ok(&agents.alice, "agent.create", json!({ "name": "Helper", "webhook_url": URL })).await;
    let id = made["agent"]["id"].as_str().unwrap().to_owned();
    let now = agents.test.world.clock.now_ms();
    let delivery = |n: i64, status: &str, attempts: i64, error: &str| {
        let ended = if status == "waiting" { "NULL".to_owned() } else { now.to_string() };
        format!(
            "INSERT INTO delivery VALUES ('{n}', '{id}', 'kind{n}', '{{\"type\":\"kind{n}\"}}', '{status}', {attempts},
                 {next_at}, 0, {error}, {now}, {ended})",
            next_at = if attempts > 0 { now + 30_000 } else { now },
        )
    };
    let filled = vec![
        delivery(4, "waiting", 0, "NULL"),
        delivery(1, "delivered", 1, "NULL"),
        delivery(3, "waiting", 3, "'it was answered with 500'"),
        delivery(2, "dead", 5, "'it was answered with 502'"),
    ];
    let next = reopened(&agents, filled).await;
    let listed = async || {
        let params = serde_json::from_value(json!({ "id": id })).unwrap();
        let page = next.clone().deliveries(agents.alice.caller(), params).await.unwrap();
        let shown = |delivery: &Value| {
            let (status, kind) = (delivery["status"].clone(), delivery["type"].clone());
            (kind, status, delivery["attempts"].clone(), delivery["last_error"].clone())
        };
        let page = serde_json::to_value(page).unwrap();
        page["deliveries"].as_array().unwrap().iter().map(shown).collect::<Vec<_>>()
    };
    let row = |n: i64, status: &str, attempts: i64, error: Value| {
        (json!(format!("kind{n}")), json!(status), json!(attempts), error)
    };
    let before = [
        row(4, "waiting", 0, Value::Null),
        row(3, "waiting", 3, json!("it was answered with 500")),
        row(2, "dead", 5, json!("it was answered with 502")),
        row(1, "delivered", 1, Value::Null),
    ];
    assert_eq!(listed().await, before);
    let outbox = &next.outboxes.webhooks;
    assert!(outbox.due().await.unwrap().is_empty(), "its next attempt is later");
    agents.test.world.clock.advance_ms(30_000);
    for _ in 0..2 {
        outbox.send_to(&WebhookDeliveries(next.clone()), &id).await;
    }
    assert_eq!(agents.webhooks.kinds(URL), ["kind3", "kind4"]);
    let after = [row(4, "delivered", 1, Value::Null), row(3, "delivered", 4, Value::Null)];
    assert_eq!(listed().await[..2], after);
}
