//! `auth.connect`: a token, a device and a slot turn a socket into a session.

mod params;

use super::greeting::welcome;
use crate::admission::ProvenAgent;
use crate::connection::{Connection, ConnectionKind, OpenSession};
use crate::delivery::session_notices;
use crate::gateway::GatewayState;
use kernel::{Aid, CallingAgent, RpcError, SessionNotice, Subscription, codes};
use params::{ConnectAuth, ConnectParams, bad, missing};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Why no session was opened, and the close code if the socket is closed. Mostly it stays open: clients try again on it.
pub(super) struct ConnectRefused {
    pub error: RpcError,
    pub close: Option<u16>,
}

impl From<RpcError> for ConnectRefused {
    fn from(error: RpcError) -> ConnectRefused {
        ConnectRefused { error, close: None }
    }
}

pub(super) async fn connect(
    gateway: &GatewayState,
    connection: &Arc<Connection>,
    nonce: &str,
    params: Option<&RawValue>,
) -> Result<String, ConnectRefused> {
    let params = ConnectParams::read(params)?;
    let kind = params.check(nonce)?;
    let generation = params.generation();
    let ProvenAgent { aid, network, tokens_revoked_at } = authenticate(gateway, params.auth).await?;
    let (device, slot) = (params.device.id, params.client.slot_id);

    // Before the session can be found: messages from now on are kept for this device, and their events come to this process.
    let notice = SessionNotice { aid: aid.clone(), device_id: device.clone(), connection: connection.id };
    let (subscription, told) =
        tokio::join!(subscribe(gateway, kind, &aid), session_notices::opened(&gateway.mesh, &notice));
    let all_told = told?;

    let now = gateway.clock.now_ms();
    let open = OpenSession {
        session: CallingAgent {
            aid: aid.clone(),
            device: device.clone(),
            slot,
            connection: connection.id,
            address: connection.address,
            connected_at_ms: now,
            network,
            generation,
            trace: None,
        },
        kind,
        delivery: params.delivery_mode,
        extra_info: params.extra_info,
        capabilities: params.capabilities,
        since_ms: now,
        instead_of: Vec::new(),
        _subscription: subscription,
        limit: gateway.admission.limits.agent(&aid),
        signer: Default::default(),
        tokens_revoked_at,
    };
    gateway.sessions.open(connection, open).map_err(|error| {
        let close = (error.code() == codes::SHORT_CAPACITY.code).then_some(4013);
        ConnectRefused { error, close }
    })?;
    gateway.delivery.begin(&aid, &device);
    if !all_told {
        gateway.delivery.missed([aid.clone()]);
    }
    gateway.sessions.announced().await;
    Ok(welcome(gateway, connection.id, &aid, &device, kind, now))
}

/// Events are for long connections only.
async fn subscribe(gateway: &GatewayState, kind: ConnectionKind, aid: &Aid) -> Option<Subscription> {
    match kind {
        ConnectionKind::Long => Some(gateway.delivery.subscribe(aid).await),
        ConnectionKind::Short(_) => None,
    }
}

/// Every other way to log in ends in a token, too.
async fn authenticate(gateway: &GatewayState, auth: Option<ConnectAuth>) -> Result<ProvenAgent, RpcError> {
    let auth = auth.ok_or_else(|| missing("auth"))?;
    if auth.method != "kite_token" {
        let sentence = format!("auth.method: {:?} is not accepted, log in and use kite_token", auth.method);
        return Err(bad(sentence));
    }
    if auth.token.is_empty() {
        return Err(missing("auth.token"));
    }
    gateway.admission.authenticate_session(&auth.token).await
}
