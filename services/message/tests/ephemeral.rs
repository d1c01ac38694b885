//! What is stored for a while, when it is too much: the sender that has most of it pays, with its oldest.

use super::federation::{Domain, foreign};
use super::*;
use kernel::World;
use tokio::task::JoinSet;

/// Space for a dozen messages of a kilobyte.
const TOTAL_BYTES: u64 = 20_000;

fn small() -> Settings {
    let total = TOTAL_BYTES;
    Settings {
        queue_bytes: total,
        queue_total_bytes: total,
        ttl_total_bytes: total,
        thought_total_bytes: total,
        ..Settings::default()
    }
}

/// The two kinds of messages that are stored for a while, as their senders ask for them.
fn kinds() -> [Value; 2] {
    [json!({ "delivery_mode": "queue" }), json!({ "ttl": 600 })]
}

async fn open_with(test: &TestWorld, settings: &Settings) -> Arc<MessageService> {
    MessageService::open(&test.world, settings).await.unwrap()
}

async fn send(
    service: &Arc<MessageService>,
    from: Caller,
    to: &TestAgent,
    text: &str,
    kind: &Value,
) -> Value {
    let mut params = json!({ "to": to.aid, "payload": { "text": text, "pad": "x".repeat(1000) } });
    params.as_object_mut().unwrap().extend(kind.as_object().cloned().unwrap());
    let sent = service.clone().send(from, serde_json::from_value(params).unwrap()).await.unwrap();
    serde_json::to_value(sent).unwrap()
}

async fn pull(service: &Arc<MessageService>, agent: &TestAgent) -> Value {
    let (caller, params) =
        (AgentDevice { agent, device: "c" }.caller(), serde_json::from_value(json!({ "limit": 200 })));
    serde_json::to_value(service.clone().pull(caller, params.unwrap()).await.unwrap().result).unwrap()
}

async fn think(service: &Arc<MessageService>, from: Caller, to: &TestAgent, about: usize) {
    let context = json!({ "type": "run", "id": format!("run-{about}") });
    let params = json!({ "to": to.aid, "context": context, "payload": { "pad": "x".repeat(1000) } });
    service.clone().put_thought(from, serde_json::from_value(params).unwrap()).await.unwrap();
}

async fn thinks(service: &Arc<MessageService>, from: &TestAgent, to: &TestAgent, about: usize) -> bool {
    let context = json!({ "type": "run", "id": format!("run-{about}") });
    let params = json!({ "sender_aid": from.aid, "peer_aid": to.aid, "context": context });
    let got = service.clone().get_thought(from.caller(), serde_json::from_value(params).unwrap()).await;
    got.unwrap().found
}

#[tokio::test]
async fn a_sender_that_fills_the_budget_evicts_nobody_elses_message() {
    let (test, alice, carol) = two().await;
    let (mallory, dave) = (test.register("mallory").await, test.register("dave").await);
    AgentDevice { agent: &dave, device: "c" }.join(&test).await;
    let service = open_with(&test, &small()).await;
    for kind in kinds() {
        send(&service, alice.caller(), &carol, "kept", &kind).await;
        for number in 0..40 {
            send(&service, mallory.caller(), &dave, &format!("m{number}"), &kind).await;
        }
    }
    let page = pull(&service, &carol).await;
    assert_eq!(texts(page["messages"].as_array().unwrap()), ["kept", "kept"]);
    let page = pull(&service, &dave).await;
    let left = texts(page["messages"].as_array().unwrap());
    assert!((10..30).contains(&left.len()) && left.contains(&"m39") && !left.contains(&"m0"), "{left:?}");
    let dropped =
        ["ephemeral_dropped_count", "volatile_dropped_count"].map(|name| page[name].as_u64().unwrap());
    assert_eq!(dropped.iter().sum::<u64>(), 80 - left.len() as u64, "{dropped:?}");
}

#[tokio::test]
async fn thoughts_of_one_sender_evict_its_own() {
    let (test, alice, carol) = two().await;
    let mallory = test.register("mallory").await;
    let service = open_with(&test, &small()).await;
    think(&service, alice.caller(), &carol, 0).await;
    for about in 0..40 {
        think(&service, mallory.caller(), &carol, about).await;
    }
    assert!(thinks(&service, &alice, &carol, 0).await);
    assert!(!thinks(&service, &mallory, &carol, 0).await);
    assert!(thinks(&service, &mallory, &carol, 39).await);
}

#[tokio::test]
async fn a_flood_to_one_agent_leaves_what_others_sent_it() {
    let (test, alice, carol) = two().await;
    let mallory = test.register("mallory").await;
    let service = open_with(&test, &Settings { queue_messages: 20, ..Settings::default() }).await;
    for (kind, most) in kinds().iter().zip([20, 200]) {
        send(&service, alice.caller(), &carol, "kept", kind).await;
        for number in 0..most + 5 {
            send(&service, mallory.caller(), &carol, &format!("m{number}"), kind).await;
        }
    }
    let page = pull(&service, &carol).await;
    assert_eq!((&page["ephemeral_dropped_count"], &page["volatile_dropped_count"]), (&json!(6), &json!(6)));
    let left = texts(page["messages"].as_array().unwrap());
    assert_eq!(left.iter().filter(|text| **text == "kept").count(), 2, "{left:?}");
}

#[tokio::test]
async fn the_agents_of_another_domain_pay_together() {
    let (test, alice, carol) = two().await;
    let service = open_with(&test, &Settings { queue_messages: 20, ..small() }).await;
    for kind in kinds() {
        for number in 0..3 {
            send(&service, alice.caller(), &carol, &format!("kept{number}"), &kind).await;
        }
        for number in 0..40 {
            let invented = foreign(&format!("agent{number}.aid.net"), "d");
            send(&service, invented, &carol, &format!("m{number}"), &kind).await;
        }
    }
    let page = pull(&service, &carol).await;
    let kept =
        texts(page["messages"].as_array().unwrap()).into_iter().filter(|text| text.starts_with("kept"));
    assert_eq!(kept.collect::<Vec<_>>(), ["kept0", "kept1", "kept2", "kept0", "kept1", "kept2"]);
}

/// On PostgreSQL the sums are in tables, and processes change them at once.
#[tokio::test]
async fn sums_equal_the_rows_whoever_changes_them() {
    let (test, alice, carol) = two().await;
    if test.world.store.engine() == Engine::Sqlite {
        return;
    }
    let dave = Arc::new(test.register("dave").await);
    AgentDevice { agent: &dave, device: "c" }.join(&test).await;
    let (alice, carol) = (Arc::new(alice), Arc::new(carol));
    let services = [open_with(&test, &small()).await, open_with(&test, &small()).await];
    let mut senders = JoinSet::new();
    for number in 0..8 {
        let service = services[number % 2].clone();
        let (from, to) = if number % 4 < 2 { (&alice, &carol) } else { (&carol, &dave) };
        let (from, to) = (from.clone(), to.clone());
        senders.spawn(async move {
            for about in 0..15 {
                for kind in kinds() {
                    send(&service, from.caller(), &to, "text", &kind).await;
                }
                think(&service, from.caller(), &to, about).await;
                let page = pull(&service, &to).await;
                let ack = json!({ "seq": 0, "volatile_cursor": page["latest_volatile_cursor"] });
                let caller = AgentDevice { agent: &to, device: "c" }.caller();
                service.clone().ack(caller, serde_json::from_value(ack).unwrap()).await.unwrap();
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
    let totals = checked_totals(&services[0]).await;
    assert_eq!(totals.len(), 4, "{totals:?}");
    assert!(totals.iter().all(|(_, bytes)| *bytes <= TOTAL_BYTES as i64), "{totals:?}");
}

/// Messages that were stored by the build before have no payer but one of their own; thoughts have theirs.
#[tokio::test]
async fn what_was_stored_before_the_sums_is_counted() {
    let old_rows = async |world: &World| {
        if world.store.engine() == Engine::Sqlite {
            return;
        }
        let migrations = sqlx::migrate!("./migrations/postgres");
        let db = testing::db_before(world, "message", &migrations, 15).await;
        for (kind, key, bytes) in [
            ("ring", "carol.aid.com", 30_i64),
            ("thought", "alice.aid.com", 40),
            ("thought", "erin.aid.com", 50),
        ] {
            sqlx::query("SELECT shelve($1, $2, '', $3, $4, '[]', 100, 1000, 1)")
                .bind(kind)
                .bind(key)
                .bind(i64::MAX)
                .bind(bytes)
                .execute(db.write_alone())
                .await
                .unwrap();
        }
    };
    let domain = Domain::open_after("aid.com", None, old_rows).await;
    if domain.world.store.engine() == Engine::Sqlite {
        return;
    }
    let service = MessageService::open(&domain.world, &domain.settings).await.unwrap();
    assert_eq!(checked_totals(&service).await, [("ring".to_owned(), 30), ("thought".to_owned(), 90)]);
    let (alice, dave) = (domain.register("alice").await, domain.agent("dave", "d").await);
    think(&service, alice.caller(), &dave, 1).await;
    let payers: Vec<String> =
        sqlx::query_scalar("SELECT payer FROM shelf_held WHERE kind = 'thought' ORDER BY bytes DESC")
            .fetch_all(service.store.db().read())
            .await
            .unwrap();
    assert_eq!(payers, ["agent alice.aid.com", "agent erin.aid.com"], "the old and the new thought are hers");
}

/// The bytes of each kind, on PostgreSQL. All sums are those of the rows.
async fn checked_totals(service: &MessageService) -> Vec<(String, i64)> {
    let db = service.store.db().read();
    let wrong: Vec<(String, String)> = sqlx::query_as(
        "SELECT kind, payer FROM (SELECT kind, payer, SUM(bytes) AS bytes FROM shelf GROUP BY kind, payer) AS r
         FULL JOIN shelf_held AS h USING (kind, payer) WHERE r.bytes IS DISTINCT FROM h.bytes",
    )
    .fetch_all(db)
    .await
    .unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
    let totals: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT t.kind, t.bytes, CAST(SUM(h.bytes) AS BIGINT) FROM shelf_total AS t JOIN shelf_held AS h USING (kind)
         GROUP BY t.kind, t.bytes ORDER BY t.kind",
    )
    .fetch_all(db)
    .await
    .unwrap();
    assert!(totals.iter().all(|(_, bytes, sum)| bytes == sum), "{totals:?}");
    totals.into_iter().map(|(kind, bytes, _)| (kind, bytes)).collect()
}
