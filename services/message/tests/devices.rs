//! The devices of an agent: so many, and not for ever.

use super::*;
use crate::store::cursors::SLOTS_PER_DEVICE;

async fn names(service: &MessageService, of: &TestAgent) -> Vec<String> {
    let inboxes = service.inboxes.of(&Aid::parse(&of.aid).unwrap()).await.unwrap();
    inboxes.iter().map(|inbox| inbox.device.as_str().to_owned()).collect()
}

async fn join(service: &Arc<MessageService>, agent: &TestAgent, device: &str) {
    let (aid, device) = (Aid::parse(&agent.aid).unwrap(), DeviceId::parse(device).unwrap());
    service.inboxes.join(&aid, &device, service.clock.now_ms()).await.unwrap();
}

#[tokio::test]
async fn one_device_too_many_takes_the_place_of_the_one_not_seen_for_longest() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(open).await;
    let carol = test.register("carol").await;
    let settings = Settings { devices_per_agent: 16, ..Settings::default() };
    let service = MessageService::open(&test.world, &settings).await.unwrap();
    for number in 0..16 {
        test.world.clock.advance_ms(1);
        join(&service, &carol, &format!("d{number}")).await;
    }
    test.world.clock.advance_ms(3_600_000);
    join(&service, &carol, "d0").await;
    join(&service, &carol, "new").await;
    let left = names(&service, &carol).await;
    assert_eq!(left.len(), 16);
    assert!(left.contains(&"d0".to_owned()), "it was seen since");
    assert!(!left.contains(&"d1".to_owned()), "{left:?}");
    join(&service, &carol, "d1").await;
    let left = names(&service, &carol).await;
    assert!(
        left.len() == 16 && left.contains(&"d1".to_owned()) && !left.contains(&"d2".to_owned()),
        "{left:?}"
    );
}

#[tokio::test]
async fn a_device_that_was_removed_comes_back_after_the_seq_it_knows() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    for text in ["one", "two"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    // The newest inbox of all stays, for its id.
    from.join(&test).await;
    test.world.clock.advance_ms(91 * DAY_MS);
    let test = test.restart().await;
    open_again(&test).await.remove_forgotten().await;
    assert_eq!(names(&*open_again(&test).await, &carol).await, Vec::<String>::new());
    let test = test.restart().await;
    from.send(&test, &carol, "three").await.unwrap();
    to.join(&test).await;
    from.send(&test, &carol, "four").await.unwrap();
    let page = to.call(&test, "message.pull", json!({ "after_seq": 2, "limit": 3 })).await.unwrap();
    let rows = page["messages"].as_array().unwrap();
    assert_eq!((texts(rows), seqs(rows)), (vec!["three", "four"], vec![3, 4]));
    let test = test.restart().await;
    from.send(&test, &carol, "five").await.unwrap();
    let rows = to.everything(&test).await;
    assert_eq!((texts(&rows), seqs(&rows)), (vec!["three", "four", "five"], vec![3, 4, 5]));
}

#[tokio::test]
async fn what_is_counted_is_known_after_a_restart_and_forgotten_when_it_was_removed() {
    let (test, alice, carol) = two().await;
    let settings = Settings { sender_bytes: 2 << 20, ..Settings::default() };
    let from = AgentDevice { agent: &alice, device: "a" };
    let send = async |service: &Arc<MessageService>| {
        let params = json!({ "to": carol.aid, "payload": { "text": "x".repeat(900_000) } });
        let sent = service.clone().send(from.caller(), serde_json::from_value(params).unwrap()).await;
        sent.map(drop).map_err(|error| RpcError::from(error).code())
    };
    let service = MessageService::open(&test.world, &settings).await.unwrap();
    assert_eq!(
        (send(&service).await, send(&service).await, send(&service).await),
        (Ok(()), Ok(()), Err(-32029))
    );
    service.quotas.write(test.world.clock.now_ms()).await.unwrap();
    drop(service);
    let test = test.restart().await;
    let service = MessageService::open(&test.world, &settings).await.unwrap();
    assert_eq!(send(&service).await, Ok(()), "nobody is counted before it sends");
    service.quotas.write(test.world.clock.now_ms()).await.unwrap();
    assert_eq!(send(&service).await, Err(-32029));
    test.world.clock.advance_ms(DAY_MS + DAY_MS / 12);
    service.quotas.write(test.world.clock.now_ms()).await.unwrap();
    assert_eq!(send(&service).await, Ok(()));
    service.quotas.remove_old(test.world.clock.now_ms()).await.unwrap();
}

#[tokio::test]
async fn new_agents_of_a_network_agents_of_a_domain_and_all_services_have_limits_together() {
    let (test, alice, carol) = two().await;
    let accounts = kernel::AccountSettings { network_shares: 2, domain_shares: 2, ..Default::default() };
    let mut world = test.world.clone();
    world.accounts = kernel::Accounts::new(accounts, &world.bus);
    let settings = Settings { sender_bytes: 2 << 20, ..Settings::default() };
    let service = MessageService::open(&world, &settings).await.unwrap();
    let payer = |name: &str, network: Option<&str>| {
        let agent = CallingAgent::without_session(Aid::parse(name).unwrap(), [0, 0, 0, 0].into());
        let network = network.map(|network| network.parse().unwrap());
        kernel::Payer::of(&CallingAgent { network, ..agent }, &world.issuer)
    };
    let to = Aid::parse(&carol.aid).unwrap();
    let send = |payer: &kernel::Payer, bytes: usize| {
        let reserved = service.quotas.reserve(payer, Some(&to), kernel::Kept::rows(1, bytes));
        reserved.map_err(|full| (full.scope, full.retry_after_ms.is_some()))
    };
    const MIB: usize = 1 << 20;
    for name in ["new1", "new2", "new3"] {
        let new = payer(&format!("{name}.{}", world.issuer), Some("192.0.2.0/24"));
        assert_eq!(send(&new, MIB), Ok(()), "{name}");
    }
    let fourth = payer(&format!("new4.{}", world.issuer), Some("192.0.2.0/24"));
    assert_eq!(send(&fourth, MIB), Err(("accounts.network_shares", true)));
    let elsewhere = payer(&format!("new4.{}", world.issuer), Some("198.51.100.0/24"));
    assert_eq!(send(&elsewhere, MIB), Ok(()));
    for name in ["dave", "erin", "frank"] {
        assert_eq!(send(&payer(&format!("{name}.north.test"), None), MIB), Ok(()), "{name}");
    }
    assert_eq!(send(&payer("grace.north.test", None), MIB), Err(("accounts.domain_shares", true)));
    let sender = payer(&alice.aid, None);
    world.accounts.tell("task", vec![(sender.aid().unwrap().clone(), 6 << 30)]);
    assert_eq!(send(&sender, 1), Err(("accounts.total_bytes", true)));

    // After a restart, too, and for seven days.
    service.quotas.write(world.clock.now_ms()).await.unwrap();
    drop(service);
    let service = MessageService::open(&world, &settings).await.unwrap();
    let first = service.quotas.reserve(&fourth, Some(&to), kernel::Kept::rows(1, 1));
    first.expect("nobody is counted before it sends");
    for (days, refused) in [(0, true), (6, true), (2, false)] {
        world.clock.advance_ms(days * DAY_MS);
        service.quotas.remove_old(world.clock.now_ms()).await.unwrap();
        service.quotas.write(world.clock.now_ms()).await.unwrap();
        let sent = service.quotas.reserve(&fourth, Some(&to), kernel::Kept::rows(1, MIB));
        assert_eq!(sent.is_err(), refused, "after {days} more days");
    }
}

/// Every five seconds those who have little are no more in memory: whether it is little depends on rows and on the operator, too.
#[tokio::test]
async fn a_limit_of_rows_or_of_the_operator_holds_after_the_counts_were_written() {
    let (test, alice, carol) = two().await;
    let settings = Settings { sender_rows: 1000, ..Settings::default() };
    let service = MessageService::open(&test.world, &settings).await.unwrap();
    let to = Aid::parse(&carol.aid).unwrap();
    let payer = |agent: &TestAgent| {
        let agent = CallingAgent::without_session(Aid::parse(&agent.aid).unwrap(), [0, 0, 0, 0].into());
        kernel::Payer::of(&agent, &test.world.issuer)
    };
    let limit = json!({ "aid": carol.aid, "bytes": 1 << 20 });
    test.call_as(Caller::Operator, "message.account", limit).await.unwrap();
    service.quotas.write(test.world.clock.now_ms()).await.unwrap();
    for (sender, kept) in [(&alice, kernel::Kept::rows(600, 1)), (&carol, kernel::Kept::rows(1, 600_000))] {
        let sender = payer(sender);
        service.quotas.reserve(&sender, Some(&to), kept).unwrap();
        service.quotas.write(test.world.clock.now_ms()).await.unwrap();
        let full = service.quotas.reserve(&sender, Some(&to), kept).expect_err("the limit holds");
        assert!(full.held > 0, "{}", full.sentence);
    }
}

#[tokio::test]
async fn a_sender_who_wrote_nothing_has_no_cursor_and_is_not_told() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    from.send(&test, &carol, "one").await.unwrap();
    let service = open_again(&test).await;
    let inbox = service.inboxes.of(&Aid::parse(&carol.aid).unwrap()).await.unwrap()[0].id;
    let known = test.events.lock().len();
    for name in ["nobody", "dave"] {
        let sender = format!("{name}.{}", test.world.issuer);
        let ack = json!({ "cursor_scope": "peer", "sender_aid": sender, "up_to_seq": 1 });
        assert_eq!(
            to.call(&test, "message.v2.ack", ack).await.unwrap()["ack_seq"],
            1,
            "it is never answered lower"
        );
    }
    assert_eq!(test.events.lock().len(), known);
    let count = "SELECT COUNT(*) FROM cursor WHERE inbox = $1 AND sender <> ''";
    let cursors = async || -> i64 {
        sqlx::query_scalar(count).bind(inbox).fetch_one(service.store.db().read()).await.unwrap()
    };
    assert_eq!(cursors().await, 0);
    let ack = json!({ "cursor_scope": "peer", "sender_aid": alice.aid, "up_to_seq": 1 });
    to.call(&test, "message.v2.ack", ack).await.unwrap();
    assert_eq!(cursors().await, 1);
}

/// A client chooses its slots: each has positions, which stayed as long as the device.
#[tokio::test]
async fn a_device_has_positions_of_so_many_slots_and_those_that_read_least_go() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    from.send(&test, &carol, "one").await.unwrap();
    to.call(&test, "message.ack", json!({ "seq": 1 })).await.unwrap();
    let service = open_again(&test).await;
    let inbox = service.inboxes.of(&Aid::parse(&carol.aid).unwrap()).await.unwrap()[0].id;
    let mut tx = service.store.db().write().await.unwrap();
    for n in 0..SLOTS_PER_DEVICE {
        let insert = "INSERT INTO cursor (inbox, slot, sender, seq) VALUES ($1, $2, '', $3)";
        sqlx::query(insert)
            .bind(inbox)
            .bind(format!("slot-{n:03}"))
            .bind(n + 2)
            .execute(&mut *tx)
            .await
            .unwrap();
    }
    let asked = "INSERT INTO consumer (inbox, slot, bootstrap_floor) VALUES ($1, 'asked', 0)";
    sqlx::query(asked).bind(inbox).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();

    let slots = async || -> Vec<String> {
        let all = "SELECT slot FROM (SELECT slot FROM cursor WHERE inbox = $1 UNION SELECT slot FROM consumer WHERE inbox = $1) AS slots
                   ORDER BY slot";
        sqlx::query_scalar(all).bind(inbox).fetch_all(service.store.db().read()).await.unwrap()
    };
    assert_eq!(slots().await.len() as i64, SLOTS_PER_DEVICE + 2);
    service.store.remove_slots().await.unwrap();
    let left = slots().await;
    assert_eq!(left.len() as i64, SLOTS_PER_DEVICE);
    assert_eq!(
        left[0], "slot-000",
        "the one that has read nothing and the one that has read one message are gone"
    );
    service.store.remove_slots().await.unwrap();
    assert_eq!(slots().await, left);
}
