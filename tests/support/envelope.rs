//! Encrypted envelopes of the second generation, as a client makes and checks them, but with nothing inside.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Curve, Key};
use ring::digest;
use serde_json::{Value, json};

use super::agent::{ConnectedAgent, random_hex};
use super::{now, now_ms};

const SUITE: &str = "P256_HKDF_SHA256_AES_256_GCM";

/// A key wrapped for somebody: what stands in one row of `recipients`.
#[derive(Clone)]
pub struct TestRecipient {
    pub aid: String,
    pub device: String,
    pub role: &'static str,
    nonce: Vec<u8>,
    key: Vec<u8>,
}

/// One key for all devices of an agent.
pub fn row(aid: &str, role: &'static str) -> TestRecipient {
    row_for(aid, "", role)
}

/// A key for one device.
pub fn row_for(aid: &str, device: &str, role: &'static str) -> TestRecipient {
    let bytes = |many: usize| hex::decode(random_hex(many)).expect("hex");
    TestRecipient { aid: aid.to_owned(), device: device.to_owned(), role, nonce: bytes(12), key: bytes(48) }
}

impl TestRecipient {
    fn members(&self) -> [String; 8] {
        let source = if self.device.is_empty() { "aid_master" } else { "peer_device_prekey" };
        let spk_id = if self.device.is_empty() { "" } else { "sha256:8899aabbccddeeff" };
        let words = [&self.aid, &self.device, self.role, source, "sha256:0000000000000000", spk_id];
        let [aid, device, role, source, fp, spk_id] = words.map(str::to_owned);
        [aid, device, role, source, fp, spk_id, STANDARD.encode(&self.nonce), STANDARD.encode(&self.key)]
    }

    pub fn json(&self) -> Value {
        json!(self.members())
    }
}

/// An envelope around nothing, with any signature and a hint of its own, for these rows in this order.
pub fn envelope(from: &ConnectedAgent, to: &str, message_id: &str, rows: &[TestRecipient]) -> Value {
    json!({
        "type": "e2ee.p2p_encrypted", "version": "v2", "suite": SUITE, "msg_type": "original", "t_send": now_ms(),
        "nonce": STANDARD.encode(random_hex(6)), "ciphertext": STANDARD.encode(random_hex(20)),
        "tag": STANDARD.encode(random_hex(8)), "sender_signature": STANDARD.encode(random_hex(32)),
        "sender_cert_fingerprint": "sha256:0000000000000000",
        "sender_session_pk": STANDARD.encode(hex::decode(random_hex(91)).expect("hex")),
        "recipients_digest": digest_of(rows), "recipients": rows.iter().map(TestRecipient::json).collect::<Vec<_>>(),
        "aad": {
            "from": from.aid(), "from_device": from.device(), "to": to, "message_id": message_id,
            "timestamp": now_ms(), "suite": SUITE, "wrap_protocol": "1DH",
        },
        "test_hint": { "kept": true },
    })
}

/// The parameters of `message.send` for an envelope with one key for all devices of the recipient.
pub fn sealed(from: &ConnectedAgent, to: &str, message_id: &str) -> Value {
    json!({ "to": to, "message_id": message_id, "payload": envelope(from, to, message_id, &[row(to, "peer")]) })
}

/// Gives this device a key that others can encrypt to, as clients do after they connect.
pub async fn put_key(agent: &ConnectedAgent) -> Value {
    let (spk, at) = (Key::generate(Curve::P256), now());
    let der = spk.public().spki_der().to_vec();
    let id = format!("sha256:{}", &hex::encode(sha256(&[&der]))[..16]);
    let signed = [der.as_slice(), id.as_bytes(), at.to_string().as_bytes()].concat();
    let params = json!({
        "peer_aid": agent.aid(), "key_source": "peer_device_prekey", "spk_id": id, "spk_pk": STANDARD.encode(&der),
        "spk_signature": STANDARD.encode(agent.identity.key.sign_fixed(&signed)), "spk_timestamp": at,
    });
    agent.call("message.v2.put_peer_pk", &params).await;
    params
}

/// What `recipients_digest` must be.
pub fn digest_of(rows: &[TestRecipient]) -> String {
    let mut layer: Vec<Vec<u8>> = rows.iter().map(|row| leaf(&row.members())).collect();
    while layer.len() > 1 {
        layer = layer.chunks(2).map(|pair| node(&pair[0], pair.last().expect("one or two"))).collect();
    }
    layer.first().map(hex::encode).unwrap_or_default()
}

/// The digest of the one row that the examples of `message.send` show.
pub fn digest_of_example(aid: &str) -> String {
    let members = [aid, "", "peer", "aid_master", "sha256:0000000000000000", "", "AAAAAAAAAAAAAAAA"];
    let [aid, device, role, source, fp, spk_id, nonce] = members.map(str::to_owned);
    hex::encode(leaf(&[aid, device, role, source, fp, spk_id, nonce, "A".repeat(64)]))
}

/// Checks what a device was given as a client does: its own row belongs to the digest. Gives the envelope.
pub fn opened(envelope_json: &Value) -> Value {
    let text = envelope_json.as_str().unwrap_or_else(|| panic!("{envelope_json} is not text"));
    let envelope: Value = serde_json::from_str(text).expect("the envelope is JSON");
    assert!(envelope.get("recipients").is_none(), "nobody sees the rows of others: {envelope}");
    let member = |name: &str| super::agent::text(&envelope["recipient"][name]);
    let names = ["aid", "device_id", "role", "key_source", "fp", "spk_id", "wrap_nonce", "wrapped_key"];
    let mut hash = leaf(&names.map(member));
    for step in envelope["merkle_proof"].as_array().expect("a proof is a list") {
        let sibling = hex::decode(super::agent::text(&step["sibling"])).expect("a sibling is hex");
        hash = match step["position"].as_str() {
            Some("L") => node(&sibling, &hash),
            Some("R") => node(&hash, &sibling),
            other => panic!("{other:?} is no side"),
        };
    }
    assert_eq!(envelope["recipients_digest"], hex::encode(hash), "the proof does not lead to the digest");
    envelope
}

fn leaf(row: &[String; 8]) -> Vec<u8> {
    let [aid, device, role, source, fp, spk_id, nonce, key] = row;
    let decode = |text: &String| STANDARD.decode(text).expect("base64");
    let mut bytes = b"AUN-V2-RCPT-LEAF-v1".to_vec();
    for word in [aid, device, role, source, fp, spk_id] {
        bytes.extend_from_slice(word.as_bytes());
        bytes.push(0);
    }
    sha256(&[&bytes, &decode(nonce), &decode(key)])
}

fn node(left: &[u8], right: &[u8]) -> Vec<u8> {
    sha256(&[b"AUN-V2-RCPT-NODE-v1", left, right])
}

fn sha256(parts: &[&[u8]]) -> Vec<u8> {
    digest::digest(&digest::SHA256, &parts.concat()).as_ref().to_vec()
}

#[test]
fn the_digest_is_the_one_of_the_protocol() {
    let fixed = |aid: &str, device: &str, role, byte: u8| {
        let mut members = row_for(aid, device, role).members();
        if !device.is_empty() {
            members[3] = "peer_device_prekey".to_owned();
        }
        members[4] = "sha256:0011223344556677".to_owned();
        members[6] = STANDARD.encode([byte; 12]);
        members[7] = STANDARD.encode([byte + 0x10; 48]);
        leaf(&members)
    };
    let alone = fixed("bobb.agentid.pub", "", "peer", 0);
    assert_eq!(hex::encode(alone), "5dc65f420ffc7007c78439d45a3c20d8f4fe5f7c83575c169e796a6ee7ab0819");
    let [a, b, c] = [
        fixed("alice.agentid.pub", "dev-a2", "self_sync", 2),
        fixed("bobb.agentid.pub", "dev-b1", "peer", 0),
        fixed("bobb.agentid.pub", "dev-b2", "peer", 1),
    ];
    let root = node(&node(&a, &b), &node(&c, &c));
    assert_eq!(hex::encode(root), "4e3c9751ec7ea26262968ec15bd44d3b2f1f2ae24c9de12106f7245e7ea4a6d7");
}
