//! `message.outbox`: the messages that wait for other domains, for the operator.

use super::{Error, MessageService};
use kernel::{Caller, DestinationState};
use proto_schemas::requests::message::{IssuerOutbox, Outbox, OutboxReport};
use std::sync::Arc;

/// The most domains in one answer.
const MAX_PEERS: i64 = 1000;

impl MessageService {
    pub(super) async fn outbox(self: Arc<Self>, _: Caller, _: Outbox) -> Result<OutboxReport, Error> {
        let states = self.outbox.rows.destinations(MAX_PEERS).await?;
        let now = self.clock.now_ms();
        Ok(OutboxReport { issuers: states.into_iter().map(|state| issuer_outbox(state, now)).collect() })
    }
}

fn issuer_outbox(state: DestinationState, now: i64) -> IssuerOutbox {
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    IssuerOutbox {
        issuer: state.destination,
        waiting: count(state.waiting),
        bytes: count(state.bytes),
        oldest_ms: state.oldest_at.map(|at| count(now - at)),
        attempts: count(state.attempts),
        last_error: state.last_error,
        retry_in_ms: (state.attempts > 0).then(|| count(state.next_try - now)),
        delivered: count(state.delivered),
        refused: count(state.refused),
        expired: count(state.expired),
    }
}
