//! `gateway.forward_federation`: relays a call to another domain, in the name of an agent of ours.

use super::Federation;
use super::errors::refused;
use super::outbound::RelayOutcome;
use super::wire::relay::{Relay, RelayCaller, RelayKind, RelayText};
use serde_json::value::RawValue;
use services::kernel::{Aid, Caller, Forward, Forwarded, Forwarder, PendingAnswer, RpcError, codes};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The services that may call other domains.
const SERVICES: [&str; 8] = ["message", "group", "storage", "collab", "mail", "task", "search", "gateway"];

const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
const READ_TIMEOUT: Duration = Duration::from_secs(8);
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(25);
const RELAY_ID_BYTES: usize = 64;

impl Federation {
    pub(super) async fn forward_federation(
        self: Arc<Self>,
        caller: Caller,
        mut params: Forward,
    ) -> Result<Forwarded, RpcError> {
        check_service(&caller)?;
        let issuer = self.target(&params.target_issuer)?;
        let relay_id = params.relay_id.get_or_insert_with(|| self.relay_ids.next()).clone();

        let began = Instant::now();
        let result = self.begin_one(&issuer, params, LONGEST_TIMEOUT)?.await?;
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Forwarded { result, target_issuer: issuer, relay_id, elapsed_ms })
    }

    /// Queues a call, which fixes its position in the order; the future is its outcome.
    pub(super) fn begin_one(
        self: &Arc<Self>,
        issuer: &str,
        forward: Forward,
        longest: Duration,
    ) -> Result<impl Future<Output = RelayOutcome> + use<>, RpcError> {
        let (text, within) = self.relay_of(forward)?;
        self.peers.begin(self, issuer, text, within.min(longest))
    }

    /// The target domain, if it is another one and federation with it is allowed.
    pub(super) fn target(&self, issuer: &str) -> Result<String, RpcError> {
        let issuer = issuer.to_ascii_lowercase();
        if !self.config.federation.enabled {
            return Err(refused("disabled", "federation is disabled"));
        }
        if issuer == self.issuer() {
            return Err(refused("target_is_local", format!("{issuer} is this domain")));
        }
        let is_domain = || issuer.parse::<IpAddr>().is_err() && Aid::parse(&format!("name.{issuer}")).is_ok();
        if !self.peers.has_queue(&issuer) && !is_domain() {
            return Err(refused("target_invalid", format!("{issuer:?} is not a domain")));
        }
        if !self.trust.allows(&issuer) {
            return Err(refused("issuer_blocked", format!("this domain does not federate with {issuer}")));
        }
        Ok(issuer)
    }

    /// The relay for a call of a service, and how long it may take.
    fn relay_of(&self, forward: Forward) -> Result<(RelayText, Duration), RpcError> {
        let Forward { namespace, method, relay_id, trace, .. } = &forward;
        let name = format!("{namespace}.{method}");
        let allowed = self.config.federation.namespaces.contains(namespace);
        let rule = proto_schemas::find(&name).and_then(|method| method.federation).filter(|_| allowed);
        let Some(rule) = rule else {
            return Err(refused("method_not_allowed", format!("{name} may not be called in other domains")));
        };
        if forward.caller_aid.issuer() != self.issuer() {
            let sentence = format!("{} is not an agent of this domain", forward.caller_aid);
            return Err(refused("caller_not_local", sentence));
        }
        let relay_id = match relay_id {
            Some(id) if is_id(id) => id.clone(),
            Some(_) => {
                let sentence =
                    format!("params.relay_id must be 1 to {RELAY_ID_BYTES} printable ASCII characters");
                return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
            }
            None => self.relay_ids.next(),
        };
        let within = forward
            .timeout_ms
            .map_or(if rule.reads { READ_TIMEOUT } else { WRITE_TIMEOUT }, Duration::from_millis);
        let caller = RelayCaller {
            kind: "aid".into(),
            aid: forward.caller_aid.as_str().into(),
            device_id: forward.device_id.as_str().into(),
            slot_id: forward.slot_id.as_str().into(),
        };
        let relay = Relay {
            relay_id: relay_id.into(),
            kind: RelayKind::Rpc,
            namespace: namespace.into(),
            method: method.into(),
            caller: Some(caller),
            params: Some(&forward.params),
            event: None,
            event_id: None,
            targets: None,
            payload: None,
            hop: 1,
            depth: 0,
            deadline_ms: None,
            trace: trace.clone(),
        };
        Ok((relay.text()?, within.min(LONGEST_TIMEOUT)))
    }
}

/// For the services of this process, without serializing the call in between.
impl Forwarder for Federation {
    fn forward(self: Arc<Self>, service: &str, forward: Forward) -> PendingAnswer<Box<RawValue>> {
        let begun = check_service(&Caller::service(service))
            .and_then(|()| self.target(&forward.target_issuer))
            .and_then(|issuer| self.begin_one(&issuer, forward, LONGEST_TIMEOUT));
        Box::pin(async move {
            let ended = async { begun?.await };
            ended.await.map_err(|error| error.logged("gateway.forward_federation"))
        })
    }
}

/// Only a service may call another domain in the name of agents.
pub(super) fn check_service(caller: &Caller) -> Result<(), RpcError> {
    match caller {
        Caller::Service(name) if SERVICES.contains(&name.as_str()) => Ok(()),
        _ => Err(RpcError::new(codes::PERMISSION_DENIED, "only a service may call another domain")),
    }
}

fn is_id(id: &str) -> bool {
    (1..=RELAY_ID_BYTES).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'))
}
