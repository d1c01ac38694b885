//! `gateway.forward_federation`: relays a call to another domain, in the name of an agent of ours or of a service.

use super::Federation;
use super::errors::refused;
use super::outbound::RelayOutcome;
use super::relay_origin::RelayOrigin;
use super::wire::relay::{Relay, RelayKind, RelayText};
use kernel::{Aid, Caller, CallerKind, Forwarder, PendingAnswer, RpcError, Trace, codes};
use proto_schemas::requests::gateway::{ForwardFederation, ForwardedCall};
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
const READ_TIMEOUT: Duration = Duration::from_secs(8);
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(25);
const RELAY_ID_BYTES: usize = 64;

impl Federation {
    pub(super) async fn forward_federation(
        self: Arc<Self>,
        caller: Caller,
        mut params: ForwardFederation,
    ) -> Result<ForwardedCall, RpcError> {
        let origin = RelayOrigin::of(&caller)?;
        let issuer = self.target(named_target(&params.target_issuer, &params.target_aid)?)?;
        let relay_id = params.relay_id.get_or_insert_with(|| self.relay_ids.next()).clone();

        let began = Instant::now();
        let result = self.begin_one(&origin, &issuer, params, LONGEST_TIMEOUT)?.await?;
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(ForwardedCall { result, target_issuer: issuer, relay_id, elapsed_ms })
    }

    /// Queues a call, which fixes its position in the order; the future is its outcome.
    pub(super) fn begin_one(
        self: &Arc<Self>,
        origin: &RelayOrigin<'_>,
        issuer: &str,
        forward: ForwardFederation,
        longest: Duration,
    ) -> Result<impl Future<Output = RelayOutcome> + use<>, RpcError> {
        let (text, within) = self.relay_of(origin, &forward)?;
        let asker = forward.caller_aid.as_ref().map_or(origin.service, Aid::as_str);
        self.peers.begin(self, issuer, asker, text, within.min(longest))
    }

    /// The target domain, if it is another one and federation with it is allowed.
    pub(super) fn target(&self, issuer: &str) -> Result<String, RpcError> {
        let issuer = issuer.to_ascii_lowercase();
        if !self.config.federation.enabled {
            return Err(refused(
                "disabled",
                "federation is disabled on this server: the operator can enable it with federation.enabled",
            ));
        }
        if issuer == self.issuer() {
            return Err(refused("target_is_local", format!("{issuer} is this domain")));
        }
        let is_domain = || issuer.parse::<IpAddr>().is_err() && Aid::parse(&format!("name.{issuer}")).is_ok();
        if !self.peers.has_queue(&issuer) && !is_domain() {
            return Err(refused("target_invalid", format!("{issuer:?} is not a domain")));
        }
        if !self.trust.allows(&issuer) {
            let sentence = format!(
                "this domain does not federate with {issuer}: see federation.allow and federation.block"
            );
            return Err(refused("issuer_blocked", sentence));
        }
        Ok(issuer)
    }

    /// The relay for a call of a service, and how long it may take.
    fn relay_of(
        &self,
        origin: &RelayOrigin<'_>,
        forward: &ForwardFederation,
    ) -> Result<(RelayText, Duration), RpcError> {
        let ForwardFederation { namespace, method, relay_id, .. } = forward;
        origin.check_namespace(namespace)?;
        let reads = self.forwarded_method_reads(forward)?;
        let caller = origin.caller(forward, self.issuer())?;
        let depth = origin.depth()?;
        let relay_id = match relay_id {
            Some(id) if is_id(id) => id.clone(),
            Some(_) => {
                let sentence = format!("relay_id must be 1 to {RELAY_ID_BYTES} printable ASCII characters");
                return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
            }
            None => self.relay_ids.next(),
        };
        let within = forward
            .timeout_ms
            .map_or(if reads { READ_TIMEOUT } else { WRITE_TIMEOUT }, Duration::from_millis);
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
            depth,
            deadline_ms: None,
            trace: trace_of(forward)?,
        };
        Ok((relay.text()?, within.min(LONGEST_TIMEOUT)))
    }

    /// Whether the method of a call only reads, if its schema lets such a caller call it from another domain.
    fn forwarded_method_reads(
        &self,
        ForwardFederation { namespace, method, as_service, .. }: &ForwardFederation,
    ) -> Result<bool, RpcError> {
        let as_service = as_service.unwrap_or_default();
        let caller = if as_service { CallerKind::ForeignService } else { CallerKind::ForeignAgent };
        let found = self.rules.method(namespace, method).filter(|_| self.rules.allows(namespace));
        let rule = found.filter(|method| caller.has(method)).and_then(|method| method.federation);
        rule.map(|rule| rule.reads).ok_or_else(|| {
            let who = if as_service { " by a service" } else { "" };
            let sentence = format!("{namespace}.{method} may not be called in other domains{who}");
            refused("method_not_allowed", sentence)
        })
    }
}

/// For the services of this process, without serializing the call in between.
impl Forwarder for Federation {
    fn forward(self: Arc<Self>, caller: &Caller, forward: ForwardFederation) -> PendingAnswer<Box<RawValue>> {
        let begun = RelayOrigin::of(caller).and_then(|origin| {
            let issuer = self.target(named_target(&forward.target_issuer, &forward.target_aid)?)?;
            self.begin_one(&origin, &issuer, forward, LONGEST_TIMEOUT)
        });
        Box::pin(async move {
            let ended = async { begun?.await };
            ended.await.map_err(|error| error.logged("gateway.forward_federation"))
        })
    }
}

/// The domain that is called, which either its own name or an agent of it says.
pub(super) fn named_target<'a>(
    issuer: &'a Option<String>,
    aid: &'a Option<Aid>,
) -> Result<&'a str, RpcError> {
    match (issuer, aid) {
        (Some(issuer), None) => Ok(issuer),
        (None, Some(aid)) => Ok(aid.issuer()),
        _ => {
            let sentence = "either target_issuer or target_aid must name the domain";
            Err(RpcError::new(codes::INVALID_PARAMS, sentence))
        }
    }
}

/// The trace that the call belongs to.
fn trace_of(forward: &ForwardFederation) -> Result<Option<Trace>, RpcError> {
    let trace = forward.trace.as_deref().map(|trace| serde_json::from_str(trace.get())).transpose();
    trace.map_err(|_| RpcError::new(codes::INVALID_PARAMS, "trace must have a trace_id and a mode"))
}

fn is_id(id: &str) -> bool {
    (1..=RELAY_ID_BYTES).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'))
}
