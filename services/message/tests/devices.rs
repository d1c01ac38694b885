//! The devices of an agent: so many, and not for ever.

use super::*;

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
