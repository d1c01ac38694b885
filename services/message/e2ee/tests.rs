//! Prekeys of the first generation: returned as they were given, one for each device.

use kernel::{Caller, CallingAgent, DeviceId, codes};
use serde_json::{Value, json};
use testing::{DAY_MS, TestAgent, TestWorld, code};

fn on(agent: &TestAgent, device: &str) -> Caller {
    let Caller::Agent(session) = agent.caller() else { unreachable!() };
    Caller::Agent(CallingAgent { device: DeviceId::parse(device).unwrap(), ..session })
}

fn prekey(id: &str) -> Value {
    json!({ "prekey_id": id, "public_key": "MFkw", "signature": "MEUC", "created_at": 1794701761845_i64,
            "cert_fingerprint": format!("sha256:{}", "0".repeat(64)) })
}

async fn get(test: &TestWorld, of: &TestAgent) -> Value {
    test.call_as(of.caller(), "message.e2ee.get_prekey", json!({ "aid": of.aid })).await.unwrap()
}

#[tokio::test]
async fn each_device_has_the_prekey_it_gave_last_and_the_latest_is_first() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let alice = test.register("alice").await;
    for (device, id) in [("d1", "p-1"), ("d2", "p-2"), ("d1", "p-3")] {
        test.world.clock.advance_ms(1);
        let mut given = prekey(id);
        given["device_id"] = json!(device);
        test.call_as(on(&alice, device), "message.e2ee.put_prekey", given).await.unwrap();
    }
    let got = get(&test, &alice).await;
    let expected = |id: &str, device: &str| {
        let mut expected = prekey(id);
        expected["device_id"] = json!(device);
        expected
    };
    assert_eq!((&got["found"], &got["prekey"]), (&json!(true), &expected("p-3", "d1")));
    assert_eq!(got["device_prekeys"], json!([expected("p-3", "d1"), expected("p-2", "d2")]));
    let again = test.restart().await;
    assert_eq!(get(&again, &alice).await, got);
}

#[tokio::test]
async fn nothing_is_added_to_what_was_given() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let given = json!({ "prekey_id": "p-1", "public_key": "MFkw", "signature": "MEUC" });
    test.call_as(alice.caller(), "message.e2ee.put_prekey", given.clone()).await.unwrap();
    assert_eq!(
        get(&test, &alice).await,
        json!({ "found": true, "prekey": given, "device_prekeys": [given] })
    );
    test.call_as(on(&alice, "d1"), "message.e2ee.put_prekey", prekey("p-2")).await.unwrap();
    let devices = get(&test, &alice).await["device_prekeys"].as_array().unwrap().len();
    assert_eq!(devices, 1, "beside a device, a key without one is not listed");
}

#[tokio::test]
async fn keys_are_refused_for_other_devices_and_not_found_in_other_domains() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let mut other = prekey("p-1");
    other["device_id"] = json!("d2");
    let refused = test.call_as(on(&alice, "d1"), "message.e2ee.put_prekey", other).await;
    assert_eq!(code(refused), codes::INVALID_PARAMS.code);
    let nothing = json!({ "found": false, "prekey": null, "device_prekeys": [] });
    assert_eq!(get(&test, &alice).await, nothing);
    let foreign = json!({ "aid": "bobb.elsewhere.example" });
    let foreign = test.call_as(alice.caller(), "message.e2ee.get_prekey", foreign).await;
    assert_eq!(code(foreign), codes::FEDERATION_UNREACHABLE.code);
}

#[tokio::test]
async fn a_repetition_is_noticed_by_the_same_device_within_a_day() {
    let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let ask = async |method: &str, device: &str, id: &str| {
        let params = json!({ "sender_aid": "bobb.aid.pub", "message_id": id });
        test.call_as(on(&alice, device), method, params).await.unwrap()["duplicate"].clone()
    };
    let (check, record) = ("message.e2ee.check_replay_guard", "message.e2ee.record_replay_guard");
    assert_eq!(ask(check, "d1", "m-1").await, false);
    assert_eq!(ask(record, "d1", "m-1").await, false);
    assert_eq!(ask(record, "d1", "m-1").await, true);
    assert_eq!(ask(check, "d1", "m-1").await, true);
    assert_eq!(
        (ask(record, "d2", "m-1").await, ask(record, "d1", "m-2").await),
        (json!(false), json!(false))
    );
    test.world.clock.advance_ms(DAY_MS);
    assert_eq!(ask(check, "d1", "m-1").await, false);
    assert_eq!(ask(record, "d1", "m-1").await, false);
    assert_eq!(ask(record, "d1", "m-1").await, true);
}
