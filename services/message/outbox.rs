//! `message.outbox`: the messages that wait for other domains, for the operator.

use super::{Error, MessageService};
use kernel::{Caller, DestinationState};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most domains in one answer.
const MAX_PEERS: i64 = 1000;

#[derive(Deserialize)]
pub(super) struct OutboxParams {}

#[derive(Clone, Serialize)]
pub(super) struct OutboxState {
    issuers: Vec<PeerBacklog>,
}

#[derive(Clone, Serialize)]
struct PeerBacklog {
    issuer: String,
    waiting: i64,
    bytes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_ms: Option<i64>,
    attempts: i64,
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_in_ms: Option<i64>,
    delivered: i64,
    refused: i64,
    expired: i64,
}

impl MessageService {
    pub(super) async fn outbox(self: Arc<Self>, _: Caller, _: OutboxParams) -> Result<OutboxState, Error> {
        let states = self.outbox.rows.destinations(MAX_PEERS).await?;
        let now = self.clock.now_ms();
        Ok(OutboxState { issuers: states.into_iter().map(|state| PeerBacklog::of(state, now)).collect() })
    }
}

impl PeerBacklog {
    fn of(state: DestinationState, now: i64) -> PeerBacklog {
        PeerBacklog {
            issuer: state.destination,
            waiting: state.waiting,
            bytes: state.bytes,
            oldest_ms: state.oldest_at.map(|at| (now - at).max(0)),
            attempts: state.attempts,
            last_error: state.last_error,
            retry_in_ms: (state.attempts > 0).then(|| (state.next_try - now).max(0)),
            delivered: state.delivered,
            refused: state.refused,
            expired: state.expired,
        }
    }
}
