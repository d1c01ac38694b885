//! `gateway.forward_federation`: have another domain do something, in the name of an agent of ours.

use super::wire::{self, Kind, Relay};
use super::{Federation, refused};
use services::kernel::{Aid, Caller, Forward, Forwarded, RpcError, codes};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The rooms that have something to do in other domains.
const ROOMS: [&str; 8] = ["message", "group", "storage", "collab", "mail", "task", "search", "gateway"];

const WRITES: Duration = Duration::from_secs(15);
const READS: Duration = Duration::from_secs(8);
pub const LONGEST: Duration = Duration::from_secs(25);
const LONGEST_ID: usize = 64;

impl Federation {
    pub(super) async fn forward_federation(
        self: Arc<Self>,
        caller: Caller,
        params: Forward,
    ) -> Result<Forwarded, RpcError> {
        check_room(&caller)?;
        let issuer = self.target(&params.target_issuer)?;
        let (relay, within) = self.relay_of(params)?;

        let (began, relay_id) = (Instant::now(), relay.relay_id.clone());
        let result = self.peers.relay(&self, &issuer, relay, within).await?;
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Forwarded { result, target_issuer: issuer, relay_id, elapsed_ms })
    }

    /// The domain that is meant, if it is another one and we deal with it.
    pub(super) fn target(&self, issuer: &str) -> Result<String, RpcError> {
        let issuer = issuer.to_ascii_lowercase();
        if !self.config.federation.enabled {
            return Err(refused("disabled", "this domain does not deal with others"));
        }
        if issuer == self.issuer() {
            return Err(refused("target_is_local", format!("{issuer} is this domain")));
        }
        let is_address = issuer.parse::<IpAddr>().is_ok();
        if is_address || Aid::parse(&format!("name.{issuer}")).is_err() {
            return Err(refused("target_invalid", format!("{issuer:?} is not a domain")));
        }
        if !self.trust.allows(&issuer) {
            return Err(refused("issuer_blocked", format!("this domain does not deal with {issuer}")));
        }
        Ok(issuer)
    }

    /// What is sent for a room's call, and how long it may take.
    pub(super) fn relay_of(&self, forward: Forward) -> Result<(Relay, Duration), RpcError> {
        let name = format!("{}.{}", forward.namespace, forward.method);
        let allowed = self.config.federation.namespaces.contains(&forward.namespace);
        let rule = proto_schemas::find(&name).and_then(|method| method.federation).filter(|_| allowed);
        let Some(rule) = rule else {
            return Err(refused("method_not_allowed", format!("{name} does not cross to other domains")));
        };
        if forward.caller_aid.issuer() != self.issuer() {
            let sentence = format!("{} is no agent of this domain", forward.caller_aid);
            return Err(refused("caller_not_local", sentence));
        }
        let relay_id = match forward.relay_id {
            Some(id) if is_id(&id) => id,
            Some(_) => {
                let sentence = format!("params.relay_id: an id has 1 to {LONGEST_ID} plain characters");
                return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
            }
            None => self.ids.time_ordered(self.clock.now_ms()),
        };
        let within =
            forward.timeout_ms.map_or(if rule.reads { READS } else { WRITES }, Duration::from_millis);
        let relay = Relay {
            relay_id,
            kind: Kind::Rpc,
            namespace: forward.namespace,
            method: forward.method,
            caller: Some(wire::Caller {
                kind: "aid".to_owned(),
                aid: forward.caller_aid.to_string(),
                device_id: forward.device_id.as_str().to_owned(),
                slot_id: forward.slot_id.as_str().to_owned(),
            }),
            params: Some(forward.params),
            event: None,
            event_id: None,
            targets: None,
            payload: None,
            hop: 1,
            depth: 0,
            deadline_ms: None,
            trace: forward.trace,
        };
        Ok((relay, within.min(LONGEST)))
    }
}

/// Only a room may speak for agents.
pub(super) fn check_room(caller: &Caller) -> Result<(), RpcError> {
    match caller {
        Caller::Room(name) if ROOMS.contains(&name.as_str()) => Ok(()),
        _ => Err(RpcError::new(codes::PERMISSION_DENIED, "only a room may have another domain do something")),
    }
}

fn is_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'))
}
