//! `message.outbox`: what waits for other domains, for the operator.

use super::{Error, Message};
use crate::kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// More domains than this are not told of.
const MOST: i64 = 1000;

#[derive(Deserialize)]
pub(super) struct OutboxParams {}

#[derive(Clone, Serialize)]
pub(super) struct OutboxState {
    peers: Vec<Peer>,
}

#[derive(Clone, Serialize, sqlx::FromRow)]
struct Peer {
    issuer: String,
    waiting: i64,
    bytes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_at: Option<i64>,
    attempts: i64,
    last_error: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    next_try_at: i64,
    delivered: i64,
    refused: i64,
    expired: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Message {
    pub(super) async fn outbox(self: Arc<Self>, _: Caller, _: OutboxParams) -> Result<OutboxState, Error> {
        let peers = sqlx::query_as(
            "SELECT issuer, waiting, bytes, attempts, last_error, next_try AS next_try_at, delivered, refused, expired,
                 (SELECT MIN(at) FROM (SELECT at FROM outbox WHERE outbox.issuer = outbox_peer.issuer
                                       ORDER BY nth, key LIMIT 1) AS first) AS oldest_at
             FROM outbox_peer ORDER BY waiting DESC, issuer LIMIT $1",
        )
        .bind(MOST)
        .fetch_all(self.store.db().read())
        .await?;
        Ok(OutboxState { peers })
    }
}
