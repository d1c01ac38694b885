//! `message.v2.bootstrap`: whom to encrypt for, and how.

use crate::federation::PeerCall;
use crate::{Error, MessageService};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::{Aid, Caller, KnownCert, RpcError};
use proto_schemas::requests::ca;
use proto_schemas::requests::message::v2::{
    Bootstrap, E2eeWrapCapabilities, E2eeWrapPolicy, EncryptionDevice, EncryptionTargets, KeySource,
};
use serde::Deserialize;
use std::sync::Arc;

/// What is read of another domain's answer about its agent's devices.
#[derive(Deserialize)]
struct PeerBootstrap {
    peer_devices: Vec<EncryptionDevice>,
    e2ee_wrap_policy: PeerWrapPolicy,
}

#[derive(Deserialize)]
struct PeerWrapPolicy {
    per_aid_wrap: bool,
}

impl MessageService {
    /// An agent without a device that has keys is an answer, not an error: the client tells its user.
    pub(in super::super) async fn bootstrap(
        self: Arc<Self>,
        caller: Caller,
        request: Bootstrap,
    ) -> Result<EncryptionTargets, Error> {
        let session = caller.calling_agent()?;
        if let Some(peer_call) = self.peer_call(&caller, &request.peer_aid)? {
            return self.bootstrap_at_peer(&peer_call, &request).await;
        }

        let per_aid = can_wrap_per_aid(request.e2ee_wrap_capabilities.as_ref());
        let peer_devices = self.devices(&request.peer_aid, per_aid).await?;
        let self_devices = match request.peer_aid == session.aid {
            true => peer_devices.clone(),
            // An agent of another domain knows its own devices from there.
            false if !self.is_ours(&session.aid) => Vec::new(),
            false => self.devices(&session.aid, per_aid).await?,
        };
        Ok(targets(peer_devices, self_devices, per_aid))
    }

    /// The other domain knows the devices of its agent and decides how to wrap; those of the caller are here.
    async fn bootstrap_at_peer(
        &self,
        peer_call: &PeerCall<'_>,
        request: &Bootstrap,
    ) -> Result<EncryptionTargets, Error> {
        let theirs: PeerBootstrap = self.ask_peer(peer_call, request, None).await?;
        let per_aid = theirs.e2ee_wrap_policy.per_aid_wrap;
        let mut peer_devices = theirs.peer_devices;
        // A domain speaks for its own agents, and was asked for one of them.
        peer_devices.retain(|device| device.aid == request.peer_aid);
        let self_devices = self.devices(&peer_call.session.aid, per_aid).await?;
        Ok(targets(peer_devices, self_devices, per_aid))
    }

    /// The devices of an agent that have a key, under the certificate it has now.
    async fn devices(&self, aid: &Aid, per_aid: bool) -> Result<Vec<EncryptionDevice>, Error> {
        let inboxes = self.inboxes.of(aid).await?;
        if inboxes.iter().all(|inbox| inbox.spk.is_none()) {
            return Ok(Vec::new());
        }
        let Some(known) = self.cert_of(aid).await? else {
            return Ok(Vec::new());
        };
        let ik_pk = STANDARD.encode(known.certificate()?.public_key().spki_der());
        let mut devices = Vec::new();
        for inbox in inboxes.iter() {
            let Some(spk) = &inbox.spk else { continue };
            // One who wraps for the agent gets no keys of its devices.
            let spk = Some(spk).filter(|_| !per_aid);
            devices.push(EncryptionDevice {
                aid: aid.clone(),
                device_id: inbox.device.clone(),
                ik_pk: ik_pk.clone(),
                key_source: if per_aid { KeySource::AidMaster } else { KeySource::PeerDevicePrekey },
                spk_id: spk.map(|spk| spk.id.clone()),
                spk_pk: spk.map(|spk| spk.key.clone()),
                spk_signature: spk.map(|spk| spk.signature.clone()),
                spk_timestamp: spk.map(|spk| spk.timestamp),
            });
        }
        Ok(devices)
    }

    /// The current certificate of an agent, if it has one.
    pub(in super::super) async fn cert_of(&self, aid: &Aid) -> Result<Option<KnownCert>, RpcError> {
        self.mesh.known_cert("message", &ca::GetCert::of_aid(aid.as_str())).await
    }
}

/// Whether the caller can make one wrapped key for a whole agent. Clients that say nothing wrap it for each device.
fn can_wrap_per_aid(capabilities: Option<&E2eeWrapCapabilities>) -> bool {
    let has = |list: &Option<Vec<String>>, word: &str| {
        list.iter().flatten().any(|item| item.eq_ignore_ascii_case(word))
    };
    capabilities.is_some_and(|can| has(&can.protocols, "1DH") && has(&can.scopes, "aid"))
}

fn targets(
    peer_devices: Vec<EncryptionDevice>,
    self_devices: Vec<EncryptionDevice>,
    per_aid: bool,
) -> EncryptionTargets {
    let (protocol, scope) = if per_aid { ("1DH", "aid") } else { ("3DH", "device") };
    let e2ee_wrap_policy = E2eeWrapPolicy {
        version: "v2.1".to_owned(),
        protocol: protocol.to_owned(),
        scope: scope.to_owned(),
        per_aid_wrap: per_aid,
        per_device_wrap: !per_aid,
        source: "server".to_owned(),
    };
    EncryptionTargets { peer_devices, self_devices, audit_recipients: Vec::new(), e2ee_wrap_policy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2::put_peer_pk::key_id;
    use certs::{Curve, Key};
    use kernel::{CallingAgent, DeviceId, codes};
    use serde_json::{Value, json};
    use testing::{TestAgent, TestWorld, code, spki};

    fn on(agent: &TestAgent, device: &str) -> Caller {
        let Caller::Agent(session) = agent.caller() else { unreachable!() };
        Caller::Agent(CallingAgent { device: DeviceId::parse(device).unwrap(), ..session })
    }

    fn signed(agent: &TestAgent, timestamp: i64) -> Value {
        let key = Key::generate(Curve::P256);
        let der = key.public().spki_der().to_vec();
        let id = key_id(&der);
        let text = [der.as_slice(), id.as_bytes(), timestamp.to_string().as_bytes()].concat();
        json!({ "peer_aid": agent.aid, "key_source": "peer_device_prekey", "spk_id": id, "spk_pk": spki(&key),
                "spk_signature": STANDARD.encode(agent.key.sign_fixed(&text)), "spk_timestamp": timestamp })
    }

    async fn put(test: &TestWorld, agent: &TestAgent, device: &str, spk: &Value) -> Result<Value, RpcError> {
        test.call_as(on(agent, device), "message.v2.put_peer_pk", spk.clone()).await
    }

    async fn bootstrap(test: &TestWorld, who: &TestAgent, peer: &str, capabilities: Value) -> Value {
        let params = json!({ "peer_aid": peer, "e2ee_wrap_capabilities": capabilities });
        test.call_as(who.caller(), "message.v2.bootstrap", params).await.unwrap()
    }

    #[tokio::test]
    async fn each_device_with_a_key_is_listed_with_what_it_gave() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        let empty = bootstrap(&test, &alice, &bob.aid, Value::Null).await;
        assert_eq!((&empty["peer_devices"], &empty["self_devices"]), (&json!([]), &json!([])));
        let (first, second, own) = (signed(&bob, 100), signed(&bob, 100), signed(&alice, 100));
        test.inside("message.session_opened", json!({ "aid": bob.aid, "device_id": "without-keys" })).await;
        put(&test, &bob, "d1", &first).await.unwrap();
        put(&test, &bob, "d2", &second).await.unwrap();
        put(&test, &alice, "d1", &own).await.unwrap();

        let got = bootstrap(&test, &alice, &bob.aid, Value::Null).await;
        let device = |agent: &TestAgent, device: &str, spk: &Value| {
            let mut device = json!({ "aid": agent.aid, "device_id": device, "ik_pk": spki(&agent.key) });
            let mut fields = spk.as_object().unwrap().clone();
            fields.remove("peer_aid");
            device.as_object_mut().unwrap().extend(fields);
            device
        };
        assert_eq!(got["peer_devices"], json!([device(&bob, "d1", &first), device(&bob, "d2", &second)]));
        assert_eq!(got["self_devices"], json!([device(&alice, "d1", &own)]));
        assert_eq!(
            (&got["audit_recipients"], &got["e2ee_wrap_policy"]["scope"]),
            (&json!([]), &json!("device"))
        );
        let again = test.restart().await;
        assert_eq!(bootstrap(&again, &alice, &bob.aid, Value::Null).await, got);
    }

    #[tokio::test]
    async fn whoever_can_wrap_for_an_agent_is_asked_to_and_gets_no_keys_of_devices() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        put(&test, &bob, "d1", &signed(&bob, 100)).await.unwrap();
        let can = json!({ "version": "v2.1", "protocols": ["1DH", "3DH"], "scopes": ["aid", "device"] });
        let got = bootstrap(&test, &alice, &bob.aid, can).await;
        let device =
            json!({ "aid": bob.aid, "device_id": "d1", "ik_pk": spki(&bob.key), "key_source": "aid_master" });
        assert_eq!(got["peer_devices"], json!([device]));
        let policy = json!({ "version": "v2.1", "protocol": "1DH", "scope": "aid", "per_aid_wrap": true,
                             "per_device_wrap": false, "source": "server" });
        assert_eq!(got["e2ee_wrap_policy"], policy);
        let cannot = bootstrap(&test, &alice, &bob.aid, json!({ "protocols": ["3DH"] })).await;
        assert_eq!(cannot["e2ee_wrap_policy"]["protocol"], "3DH");
    }

    #[tokio::test]
    async fn the_newest_key_of_a_device_counts() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let bob = test.register("bobb").await;
        let (old, new) = (signed(&bob, 100), signed(&bob, 200));
        for spk in [&old, &new, &old, &new] {
            put(&test, &bob, "d1", spk).await.unwrap();
        }
        let got = bootstrap(&test, &bob, &bob.aid, Value::Null).await;
        assert_eq!(got["peer_devices"][0]["spk_id"], new["spk_id"]);
        assert_eq!(got["self_devices"], got["peer_devices"]);
    }

    #[tokio::test]
    async fn a_key_that_is_not_what_it_says_is_refused() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        let ahead = test.world.clock.now_seconds() + 86_401;
        for (name, wrong, expected) in [
            ("spk_id", json!("sha256:0000000000000000"), codes::INVALID_PARAMS),
            ("spk_pk", json!("MFk="), codes::INVALID_PARAMS),
            ("spk_pk", json!("?"), codes::INVALID_PARAMS),
            ("spk_signature", json!(""), codes::INVALID_PARAMS),
            ("spk_timestamp", json!(ahead), codes::INVALID_PARAMS),
            ("spk_timestamp", json!(-1), codes::INVALID_PARAMS),
            ("peer_aid", json!(alice.aid), codes::PERMISSION_DENIED),
        ] {
            let mut spk = signed(&bob, 100);
            spk[name] = wrong;
            assert_eq!(code(put(&test, &bob, "d1", &spk).await), expected.code, "{spk}");
        }
        assert_eq!(bootstrap(&test, &alice, &bob.aid, Value::Null).await["peer_devices"], json!([]));
    }

    #[tokio::test]
    async fn unknown_agents_have_no_devices_and_other_domains_cannot_be_asked() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let alice = test.register("alice").await;
        let got = bootstrap(&test, &alice, "nobody.aid.pub", Value::Null).await;
        assert_eq!(got["peer_devices"], json!([]));
        let foreign = json!({ "peer_aid": "bobb.elsewhere.example" });
        let foreign = test.call_as(alice.caller(), "message.v2.bootstrap", foreign).await;
        assert_eq!(code(foreign), codes::FEDERATION_UNREACHABLE.code);
    }
}
