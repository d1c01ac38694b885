//! `message.outbox`: the messages that wait for other domains, for the operator.

use super::{Error, MessageService};
use kernel::Caller;
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

#[derive(sqlx::FromRow)]
struct OutboxPeerRow {
    issuer: String,
    waiting: i64,
    bytes: i64,
    oldest_at: Option<i64>,
    attempts: i64,
    last_error: Option<String>,
    next_try: i64,
    delivered: i64,
    refused: i64,
    expired: i64,
}

impl MessageService {
    pub(super) async fn outbox(self: Arc<Self>, _: Caller, _: OutboxParams) -> Result<OutboxState, Error> {
        let rows: Vec<OutboxPeerRow> = sqlx::query_as(
            "SELECT issuer, waiting, bytes, attempts, last_error, next_try, delivered, refused, expired,
                 (SELECT MIN(at) FROM (SELECT at FROM outbox WHERE outbox.issuer = outbox_peer.issuer
                                       ORDER BY nth, key LIMIT 1) AS first) AS oldest_at
             FROM outbox_peer ORDER BY waiting DESC, issuer LIMIT $1",
        )
        .bind(MAX_PEERS)
        .fetch_all(self.store.db().read())
        .await?;
        let now = self.clock.now_ms();
        Ok(OutboxState { issuers: rows.into_iter().map(|row| row.at(now)).collect() })
    }
}

impl OutboxPeerRow {
    fn at(self, now: i64) -> PeerBacklog {
        PeerBacklog {
            issuer: self.issuer,
            waiting: self.waiting,
            bytes: self.bytes,
            oldest_ms: self.oldest_at.map(|at| (now - at).max(0)),
            attempts: self.attempts,
            last_error: self.last_error,
            retry_in_ms: (self.attempts > 0).then(|| (self.next_try - now).max(0)),
            delivered: self.delivered,
            refused: self.refused,
            expired: self.expired,
        }
    }
}
