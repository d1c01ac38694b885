//! `gateway.query_sessions`: the sessions of an agent, on all gateways of this domain.

use super::Federation;
use crate::connection::connection_id;
use kernel::{Aid, AnnouncedSession, Caller, Delivery, DeviceId, RpcError, SlotId, codes};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct QuerySessionsParams {
    aid: Aid,
    #[serde(default)]
    device_id: Option<DeviceId>,
    #[serde(default)]
    long_only: bool,
}

#[derive(Serialize)]
pub(super) struct QueriedSessions {
    online: bool,
    sessions: Vec<QueriedSession>,
}

#[derive(Serialize)]
struct QueriedSession {
    connection_id: String,
    aid: Aid,
    device_id: DeviceId,
    slot_id: SlotId,
    kind: &'static str,
    created_at_ms: i64,
    delivery_mode: Delivery,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Box<RawValue>>,
}

impl Federation {
    pub(super) async fn query_sessions(
        self: Arc<Self>,
        _: Caller,
        params: QuerySessionsParams,
    ) -> Result<QueriedSessions, RpcError> {
        let QuerySessionsParams { aid, device_id, long_only } = params;
        // No answer would be wrong: whoever asks takes an agent without sessions for offline.
        if aid.issuer() != self.issuer() {
            let sentence = format!("params.aid: {aid} is not an agent of this domain");
            return Err(RpcError::new(codes::INVALID_PARAMS, sentence).with("path", "params.aid"));
        }
        let mut sessions = self.sessions()?.everywhere(&aid);
        sessions.retain(|announced| {
            let on_device = device_id.as_ref().is_none_or(|device| announced.session.device == *device);
            on_device && (announced.long || !long_only)
        });
        let online = sessions.iter().any(|announced| announced.long);
        let sessions = sessions.into_iter().map(|announced| QueriedSession::new(&aid, announced)).collect();
        Ok(QueriedSessions { online, sessions })
    }
}

impl QueriedSession {
    fn new(aid: &Aid, announced: AnnouncedSession) -> QueriedSession {
        let AnnouncedSession { session, long, since_ms, capabilities, .. } = announced;
        QueriedSession {
            connection_id: connection_id(session.connection),
            aid: aid.clone(),
            device_id: session.device,
            slot_id: session.slot,
            kind: if long { "long" } else { "short" },
            created_at_ms: since_ms,
            delivery_mode: session.delivery,
            capabilities,
        }
    }
}
