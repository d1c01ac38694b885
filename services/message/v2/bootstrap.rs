//! `message.v2.bootstrap`: whom to encrypt for, and how.

use super::super::inboxes::Spk;
use super::super::{Error, Message};
use crate::kernel::{Aid, Caller, DeviceId, KnownCert, RpcError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct BootstrapParams {
    peer_aid: Aid,
    #[serde(default)]
    e2ee_wrap_capabilities: Option<Capabilities>,
}

/// How the caller can wrap a key. Clients that say nothing wrap it for each device.
#[derive(Deserialize)]
struct Capabilities {
    #[serde(default)]
    protocols: Vec<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct Bootstrapped {
    peer_devices: Vec<Device>,
    /// All devices of the caller, the calling one too.
    self_devices: Vec<Device>,
    /// Nobody reads along here.
    audit_recipients: [Device; 0],
    e2ee_wrap_policy: Policy,
}

#[derive(Clone, Serialize)]
struct Device {
    aid: Aid,
    device_id: DeviceId,
    /// The key of the agent's certificate.
    ik_pk: String,
    key_source: &'static str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    spk: Option<SignedKey>,
}

#[derive(Clone, Serialize)]
struct SignedKey {
    spk_id: String,
    spk_pk: String,
    spk_signature: String,
    spk_timestamp: i64,
}

#[derive(Clone, Copy, Serialize)]
struct Policy {
    version: &'static str,
    protocol: &'static str,
    scope: &'static str,
    per_aid_wrap: bool,
    per_device_wrap: bool,
    source: &'static str,
}

impl Message {
    /// Not having a device with keys is an answer, not an error: the client says so to its user.
    pub(in super::super) async fn bootstrap(
        self: Arc<Self>,
        caller: Caller,
        params: BootstrapParams,
    ) -> Result<Bootstrapped, Error> {
        let session = caller.session()?;
        if params.peer_aid.issuer() != self.issuer {
            return Err(Error::Foreign(params.peer_aid));
        }
        let policy = Policy::of(params.e2ee_wrap_capabilities.as_ref());
        let peer_devices = self.devices(&params.peer_aid, policy).await?;
        let self_devices = match params.peer_aid == session.aid {
            true => peer_devices.clone(),
            false => self.devices(&session.aid, policy).await?,
        };
        Ok(Bootstrapped { peer_devices, self_devices, audit_recipients: [], e2ee_wrap_policy: policy })
    }

    /// The devices of an agent that have a key, under the certificate it has now.
    async fn devices(&self, aid: &Aid, policy: Policy) -> Result<Vec<Device>, Error> {
        let inboxes = self.inboxes.of(aid).await?;
        if inboxes.iter().all(|inbox| inbox.spk.is_none()) {
            return Ok(Vec::new());
        }
        let known = self.cert_of(aid).await?;
        if !known.found {
            return Ok(Vec::new());
        }
        let ik_pk = STANDARD.encode(known.certificate()?.public_key().spki_der());
        let mut devices = Vec::new();
        for inbox in inboxes.iter() {
            let Some(spk) = &inbox.spk else { continue };
            devices.push(Device {
                aid: aid.clone(),
                device_id: inbox.device.clone(),
                ik_pk: ik_pk.clone(),
                key_source: if policy.per_aid_wrap { "aid_master" } else { "peer_device_prekey" },
                spk: policy.per_device_wrap.then(|| SignedKey::of(spk)),
            });
        }
        Ok(devices)
    }

    /// What the authority knows of an agent: its current certificate, or that it has none.
    pub(in super::super) async fn cert_of(&self, aid: &Aid) -> Result<KnownCert, RpcError> {
        self.mesh.ask(Caller::room("message"), "ca.get_cert", &json!({ "aid": aid })).await
    }
}

impl Policy {
    /// One wrapped key for the whole agent where the caller can make it; otherwise one for each device.
    fn of(capabilities: Option<&Capabilities>) -> Policy {
        let has = |list: &[String], word: &str| list.iter().any(|item| item.eq_ignore_ascii_case(word));
        let per_aid = capabilities.is_some_and(|can| has(&can.protocols, "1DH") && has(&can.scopes, "aid"));
        let (protocol, scope) = if per_aid { ("1DH", "aid") } else { ("3DH", "device") };
        Policy {
            version: "v2.1",
            protocol,
            scope,
            per_aid_wrap: per_aid,
            per_device_wrap: !per_aid,
            source: "server",
        }
    }
}

impl SignedKey {
    fn of(spk: &Spk) -> SignedKey {
        SignedKey {
            spk_id: spk.id.clone(),
            spk_pk: spk.key.clone(),
            spk_signature: spk.signature.clone(),
            spk_timestamp: spk.timestamp,
        }
    }
}
