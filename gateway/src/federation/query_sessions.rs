//! `gateway.query_sessions`: the sessions of an agent, on all gateways of this domain.

use super::Federation;
use crate::connection::connection_id;
use kernel::{Aid, AnnouncedSession, Caller, Delivery, Mode, RpcError};
use proto_schemas::requests::auth::DeliveryMode;
use proto_schemas::requests::gateway::{AgentSession, AgentSessions, QuerySessions};
use std::sync::Arc;

impl Federation {
    pub(super) async fn query_sessions(
        self: Arc<Self>,
        _: Caller,
        params: QuerySessions,
    ) -> Result<AgentSessions, RpcError> {
        let QuerySessions { aid, device_id, long_only } = params;
        // No answer would be wrong: whoever asks takes an agent without sessions for offline.
        if aid.issuer() != self.issuer() {
            let sentence = format!("{aid} is not an agent of this domain");
            return Err(RpcError::invalid_member("aid", sentence));
        }
        let mut sessions = self.sessions()?.everywhere(&aid);
        sessions.retain(|announced| {
            let on_device = device_id.as_ref().is_none_or(|device| announced.session.device == *device);
            on_device && (announced.long || long_only != Some(true))
        });
        let online = sessions.iter().any(|announced| announced.long);
        let sessions = sessions.into_iter().map(|announced| shown(&aid, announced)).collect();
        Ok(AgentSessions { online, sessions })
    }
}

fn shown(aid: &Aid, announced: AnnouncedSession) -> AgentSession {
    let AnnouncedSession { session, long, since_ms, capabilities, .. } = announced;
    AgentSession {
        connection_id: connection_id(session.connection),
        aid: aid.clone(),
        device_id: session.device,
        slot_id: session.slot,
        kind: if long { "long" } else { "short" }.to_owned(),
        created_at_ms: since_ms,
        delivery_mode: delivery_mode(session.delivery),
        capabilities,
    }
}

fn delivery_mode(delivery: Delivery) -> DeliveryMode {
    let mode = match delivery.mode {
        Mode::Fanout => "fanout",
        Mode::Queue => "queue",
    };
    DeliveryMode {
        mode: mode.to_owned(),
        routing: Some(delivery.routing),
        affinity_ttl_ms: Some(delivery.affinity_ttl_ms),
    }
}
