//! Envelopes alone: what is refused, what is passed on, and that every reader can verify its row.

mod properties;

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::{DeviceId, Generation, SlotId};
use serde_json::{Value, json};

const NOW: i64 = 1_794_701_761_000;

fn session() -> CallingAgent {
    CallingAgent {
        aid: Aid::parse("alice.agentid.pub").unwrap(),
        device: DeviceId::parse("dev-a1").unwrap(),
        slot: SlotId::default(),
        connection: 1,
        address: [127, 0, 0, 1].into(),
        connected_at_ms: 0,
        network: None,
        generation: Generation::Second,
        trace: None,
    }
}

fn bob() -> Aid {
    Aid::parse("bobb.agentid.pub").unwrap()
}

fn row(aid: &str, device: &str, role: &str, nonce: u8, key: u8) -> Value {
    json!([
        aid,
        device,
        role,
        "peer_device_prekey",
        "sha256:0011223344556677",
        "sha256:8899aabbccddeeff",
        STANDARD.encode([nonce; 12]),
        STANDARD.encode([key; 48]),
    ])
}

/// The rows A, B and C of the protocol's test vector.
fn abc() -> Vec<Value> {
    vec![
        row("alice.agentid.pub", "dev-a2", "self_sync", 0x02, 0x12),
        row("bobb.agentid.pub", "dev-b1", "peer", 0x00, 0x10),
        row("bobb.agentid.pub", "dev-b2", "peer", 0x01, 0x11),
    ]
}

const ABC_ROOT: &str = "4e3c9751ec7ea26262968ec15bd44d3b2f1f2ae24c9de12106f7245e7ea4a6d7";

fn envelope(rows: &[Value], digest: &str) -> Value {
    json!({
        "type": "e2ee.p2p_encrypted", "version": "v2", "suite": "P256_HKDF_SHA256_AES_256_GCM", "t_send": NOW,
        "ciphertext": "AAAA", "recipients_digest": digest, "recipients": rows,
        "aad": { "from": "alice.agentid.pub", "from_device": "dev-a1", "to": "bobb.agentid.pub", "message_id": "m-1" },
    })
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

fn open(payload: &RawValue) -> Result<Envelope<'_>, EnvelopeError> {
    Envelope::open(payload, &session(), &bob(), None, NOW)
}

#[test]
fn the_test_vector_of_the_protocol_is_reproduced_byte_for_byte() {
    let payload = raw(&envelope(&abc(), ABC_ROOT));
    let opened = open(&payload).unwrap();
    let proof =
        |index| serde_json::from_str::<Value>(opened.wrap(index).get()).unwrap()["merkle_proof"].clone();
    let (b, c) = (
        "6952595214e97da9f8d1c37c2dfe91a3c9616e787763b1c5820c57e331f94576",
        "be3d3bc986126a2c876e4a63b89717686651721bdb0370fac97aa23caf086079",
    );
    let a = "e41b2e77ea5ac1baa13db40b2b1802650a3f162a2a64479848345e1125f9186b";
    let (ab, cc) = (
        "ddc62e2c60c6efdd43b690bb8bf63ef8311ca8d635109461e86e5d48aba70256",
        "486fa3218704b19f497fc68764e50bea0973cb317288c7a74fe90cac49d1f92b",
    );
    let step = |sibling: &str, position: &str| json!({ "sibling": sibling, "position": position });
    assert_eq!(proof(0), json!([step(b, "R"), step(cc, "R")]));
    assert_eq!(proof(1), json!([step(a, "L"), step(cc, "R")]));
    assert_eq!(proof(2), json!([step(c, "R"), step(ab, "L")]));
}

#[test]
fn one_row_for_all_devices_is_its_own_root() {
    let rows = [json!([
        "bobb.agentid.pub",
        "",
        "peer",
        "aid_master",
        "sha256:0011223344556677",
        "",
        STANDARD.encode([0x00; 12]),
        STANDARD.encode([0x10; 48]),
    ])];
    let payload = raw(&envelope(&rows, "5dc65f420ffc7007c78439d45a3c20d8f4fe5f7c83575c169e796a6ee7ab0819"));
    let opened = open(&payload).unwrap();
    let wrap: Value = serde_json::from_str(opened.wrap(0).get()).unwrap();
    assert_eq!((&wrap["merkle_proof"], &wrap["recipient"]["device_id"]), (&json!([]), &json!("")));
    assert_eq!((opened.rows[0].role, opened.message_id.as_str()), (Role::Peer, "m-1"));
}

#[test]
fn the_body_is_passed_on_as_it_was_written_without_its_recipients() {
    let rows = serde_json::to_string(&abc()).unwrap();
    let text = format!(
        r#"{{"type":"e2ee.p2p_encrypted","version":"v2", "n" : 1.50e2,"recipients":{rows},"recipients_digest":"{ABC_ROOT}",
           "aad":{{ "to":"bobb.agentid.pub","from":"alice.agentid.pub","from_device":"dev-a1","message_id":"m-1","x":[1 ,2]}},
           "merkle_proof":[],"recipient":{{}},"delivery_device_id":"","test_hint":"\u00e9"}}"#
    );
    let payload: Box<RawValue> = serde_json::from_str(&text).unwrap();
    let opened = open(&payload).unwrap();
    let expected = format!(
        r#"{{"type":"e2ee.p2p_encrypted","version":"v2","n":1.50e2,"recipients_digest":"{ABC_ROOT}","aad":{},"test_hint":"\u00e9"}}"#,
        r#"{ "to":"bobb.agentid.pub","from":"alice.agentid.pub","from_device":"dev-a1","message_id":"m-1","x":[1 ,2]}"#
    );
    assert_eq!(opened.body.get(), expected);
    let whole = envelope_json(&opened.body, &opened.wrap(1), "dev-b1");
    assert!(whole.starts_with(expected.strip_suffix('}').unwrap()), "{whole}");
    let read: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(read["delivery_device_id"], "dev-b1");
    assert_eq!(
        (&read["recipient"]["role"], &read["recipient"]["device_id"]),
        (&json!("peer"), &json!("dev-b1"))
    );
    assert_eq!(read["merkle_proof"].as_array().unwrap().len(), 2);
}

#[test]
fn what_the_sender_authenticated_must_be_what_is_sent() {
    for (name, wrong) in [
        ("from", "carol.agentid.pub"),
        ("from_device", "dev-a2"),
        ("to", "carol.agentid.pub"),
        ("message_id", ""),
    ] {
        let mut changed = envelope(&abc(), ABC_ROOT);
        changed["aad"][name] = json!(wrong);
        let payload = raw(&changed);
        assert!(matches!(open(&payload), Err(EnvelopeError::Aad(_))), "{name}");
    }
    let payload = raw(&envelope(&abc(), ABC_ROOT));
    let with_id =
        |id| Envelope::open(&payload, &session(), &bob(), Some(id), NOW).map(|opened| opened.message_id);
    assert_eq!(with_id("m-1"), Ok("m-1".to_owned()));
    assert!(matches!(with_id("m-2"), Err(EnvelopeError::Aad(_))));
}

#[test]
fn rows_for_others_are_refused_and_so_are_rows_out_of_order() {
    let [a, b, c] = <[Value; 3]>::try_from(abc()).unwrap();
    let other = |aid, role| row(aid, "dev", role, 0, 1);
    let cases = [
        (vec![a.clone(), other("carol.agentid.pub", "peer")], "recipient"),
        (vec![other("bobb.agentid.pub", "peer"), other("carol.agentid.pub", "self_sync")], "recipient"),
        (vec![other("bobb.agentid.pub", "boss")], "recipient"),
        (vec![a.clone()], "recipient"),
        (vec![], "recipient"),
        (vec![a.clone(), c.clone(), b.clone()], "form"),
        (vec![a.clone(), b.clone(), b.clone(), c.clone()], "form"),
        (vec![json!(["bobb.agentid.pub", "dev-b1", "peer"])], "form"),
        (vec![json!(["bobb.agentid.pub", "d", "peer", "k", "f", "s\u{0}", "", ""])], "form"),
        (vec![json!(["bobb.agentid.pub", "d", "peer", "k", "f", "s", "?", ""])], "form"),
        (vec![b, c], "form"),
    ];
    for (rows, expected) in cases {
        let payload = raw(&envelope(&rows, ABC_ROOT));
        let found = match open(&payload).err() {
            Some(EnvelopeError::Recipient(_)) => "recipient",
            Some(EnvelopeError::Form(_)) => "form",
            other => panic!("{rows:?}: {other:?}"),
        };
        assert_eq!(found, expected, "{rows:?}");
    }
}

#[test]
fn an_envelope_without_its_members_or_of_another_day_is_malformed() {
    for name in ["recipients", "recipients_digest", "aad"] {
        let mut changed = envelope(&abc(), ABC_ROOT);
        changed.as_object_mut().unwrap().remove(name);
        let payload = raw(&changed);
        let Some(EnvelopeError::Form(sentence)) = open(&payload).err() else { panic!("{name}") };
        assert_eq!(sentence, format!("the envelope has no {name}"));
    }
    for (t_send, fine) in [
        (json!(NOW + SKEW_MS), true),
        (json!(NOW - SKEW_MS - 1), false),
        (json!(i64::MIN), false),
        (json!("now"), false),
        (Value::Null, true),
    ] {
        let mut changed = envelope(&abc(), ABC_ROOT);
        changed["t_send"] = t_send.clone();
        let payload = raw(&changed);
        assert_eq!(open(&payload).is_ok(), fine, "{t_send}");
    }
    let mut listed = envelope(&abc(), ABC_ROOT);
    listed["aad"] = json!(["alice.agentid.pub", "dev-a1", "bobb.agentid.pub", "m-1"]);
    assert!(matches!(open(&raw(&listed)), Err(EnvelopeError::Form(_))));
    let twice = raw(&envelope(&abc(), ABC_ROOT)).get().replacen("{", r#"{"recipients":[],"#, 1);
    let payload: Box<RawValue> = serde_json::from_str(&twice).unwrap();
    assert!(matches!(open(&payload), Err(EnvelopeError::Form(_))));
}

#[test]
fn the_kind_of_a_payload_is_in_two_members() {
    let cases = [
        (json!({ "type": "e2ee.p2p_encrypted", "version": "v2", "x": {} }), PayloadKind::V2),
        (json!({ "type": "e2ee.p2p_encrypted", "version": 2 }), PayloadKind::Plain),
        (json!({ "type": "e2ee.p2p_encrypted" }), PayloadKind::Plain),
        (json!({ "type": "e2ee.multi_device" }), PayloadKind::V1Split),
        (json!({ "type": "e2ee.encrypted", "version": "1" }), PayloadKind::Plain),
        (json!({ "type": 7 }), PayloadKind::Plain),
        (json!(["e2ee.multi_device", "v2"]), PayloadKind::Plain),
        (json!("text"), PayloadKind::Plain),
    ];
    for (payload, expected) in cases {
        assert_eq!(classify(&raw(&payload)), expected, "{payload}");
    }
}

#[test]
fn the_copies_of_a_message_are_split_byte_for_byte() {
    let payload: Box<RawValue> = serde_json::from_str(
        r#"{"type":"e2ee.multi_device","recipient_copies":[{"device_id":"d1","envelope":{"a" : 1.0}},{"envelope":{}}],
            "self_copies":[{"device_id":"d2","envelope":{"b":"\u00e9"}}]}"#,
    )
    .unwrap();
    let copies = split(&payload).unwrap();
    let texts = |copies: &[(String, Box<RawValue>)]| -> Vec<(String, String)> {
        copies.iter().map(|(device, envelope)| (device.clone(), envelope.get().to_owned())).collect()
    };
    assert_eq!(
        texts(&copies.recipients),
        [("d1".into(), r#"{"a" : 1.0}"#.into()), (String::new(), "{}".into())]
    );
    assert_eq!(texts(&copies.own), [("d2".into(), r#"{"b":"\u00e9"}"#.into())]);
    let copy = json!({ "device_id": "d1", "envelope": {} });
    for bad in [
        json!({}),
        json!({ "recipient_copies": [copy, copy] }),
        json!({ "recipient_copies": [{ "device_id": "d1" }] }),
        json!({ "recipient_copies": [{ "device_id": "d1", "envelope": [1] }] }),
    ] {
        assert!(matches!(split(&raw(&bad)), Err(EnvelopeError::Form(_))), "{bad}");
    }
}
