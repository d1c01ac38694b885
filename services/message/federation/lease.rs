//! The lease to deliver to a domain: one process has it for a while, and every change it makes checks that it still has it.

use super::outbox::PeerOutbox;
use super::rows::{LEASE_MS, Lease, OutboxRow, count_out, list, remove, renew};

/// How many messages are sent in one batch, and how large they may be together. To a gateway in another process the batch is one
/// frame, of which the mesh accepts 4 MiB.
const PAGE_ROWS: i64 = 200;
const PAGE_BYTES: i64 = 3 << 20;
const EXPIRE_ROWS: i64 = 1000;

/// The keys of a page that need not be sent again.
#[derive(Default)]
pub(super) struct Settled {
    pub accepted: Vec<String>,
    pub refused: Vec<String>,
}

/// Why a domain could not be delivered to, and when it is tried again.
pub(super) struct DeliveryFailure<'a> {
    pub error: &'a str,
    pub next_try: i64,
    /// Set where messages may have arrived all the same: when that was found out.
    pub may_have_arrived: Option<i64>,
}

impl PeerOutbox {
    /// `None` if another process has the lease.
    pub async fn lease(&self, issuer: &str, now: i64) -> sqlx::Result<Option<Lease>> {
        let row: Option<(i64, i64, i64)> = sqlx::query_as(
            "UPDATE outbox_peer SET fence = fence + 1, leased_until = $2
             WHERE issuer = $1 AND leased_until <= $3 RETURNING fence, attempts, sending",
        )
        .bind(issuer)
        .bind(now + LEASE_MS)
        .bind(now)
        .fetch_optional(self.db.write_alone())
        .await?;
        let Some((fence, attempts, sending)) = row else { return Ok(None) };
        self.held.lock().insert(issuer.to_owned(), fence);
        let lease = Lease { issuer: issuer.to_owned(), fence, attempts };
        if sending > 0 {
            // The process that had the lease before ended while these were being sent: they may have arrived.
            self.mark_tried(&lease, now).await?;
        }
        Ok(Some(lease))
    }

    /// Those that were being sent may have arrived, whatever happens to them next.
    async fn mark_tried(&self, lease: &Lease, now: i64) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE outbox SET tried = $3 WHERE issuer = $1 AND tried IS NULL
             AND nth <= (SELECT sending FROM outbox_peer WHERE issuer = $1 AND fence = $2)",
        )
        .bind(lease.issuer.as_str())
        .bind(lease.fence)
        .bind(now)
        .execute(self.db.write_alone())
        .await?;
        Ok(())
    }

    /// The next messages in their order.
    pub(super) async fn page(&self, lease: &Lease) -> sqlx::Result<Vec<OutboxRow>> {
        let sizes: Vec<(i64, i64)> =
            sqlx::query_as("SELECT nth, bytes FROM outbox WHERE issuer = $1 ORDER BY nth, key LIMIT $2")
                .bind(lease.issuer.as_str())
                .bind(PAGE_ROWS)
                .fetch_all(self.db.read())
                .await?;
        let (mut count, mut total) = (0, 0);
        for (_, bytes) in &sizes {
            total += bytes;
            if count > 0 && total > PAGE_BYTES {
                break;
            }
            count += 1;
        }
        sqlx::query_as(
            "SELECT key, nth, ttl_until, data FROM outbox WHERE issuer = $1 ORDER BY nth, key LIMIT $2",
        )
        .bind(lease.issuer.as_str())
        .bind(count)
        .fetch_all(self.db.read())
        .await
    }

    /// Written before messages up to this one are sent, so that after a crash they count as possibly arrived. False: another
    /// process has the lease by now.
    pub async fn mark_sending(&self, lease: &Lease, nth: i64, now: i64) -> sqlx::Result<bool> {
        let held = sqlx::query(
            "UPDATE outbox_peer SET leased_until = $3, sending = $4 WHERE issuer = $1 AND fence = $2",
        )
        .bind(lease.issuer.as_str())
        .bind(lease.fence)
        .bind(now + LEASE_MS)
        .bind(nth)
        .execute(self.db.write_alone())
        .await?;
        Ok(held.rows_affected() > 0)
    }

    /// Removes what was delivered and what never will be. False: another process has the lease by now, and nothing was done.
    pub(super) async fn settle(&self, lease: &Lease, settled: &Settled, now: i64) -> sqlx::Result<bool> {
        let mut tx = self.db.write().await?;
        if !renew(&mut tx, lease, now).await? {
            return Ok(false);
        }
        let keys: Vec<&String> = settled.accepted.iter().chain(&settled.refused).collect();
        let gone = remove(&mut tx, self.db.engine(), &list(self.db.engine(), &keys), i64::MIN, false).await?;
        let counts = [settled.accepted.len() as i64, settled.refused.len() as i64, 0];
        count_out(&mut tx, &lease.issuer, &gone, counts).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Removes what has waited too long. False: another process has the lease by now.
    pub async fn expire(&self, lease: &Lease, now: i64) -> sqlx::Result<bool> {
        loop {
            let keys: Vec<String> =
                sqlx::query_scalar("SELECT key FROM outbox WHERE issuer = $1 AND expires_at <= $2 LIMIT $3")
                    .bind(lease.issuer.as_str())
                    .bind(now)
                    .bind(EXPIRE_ROWS)
                    .fetch_all(self.db.read())
                    .await?;
            if keys.is_empty() {
                return Ok(true);
            }
            let mut tx = self.db.write().await?;
            if !renew(&mut tx, lease, now).await? {
                return Ok(false);
            }
            let gone =
                remove(&mut tx, self.db.engine(), &list(self.db.engine(), &keys), i64::MIN, false).await?;
            count_out(&mut tx, &lease.issuer, &gone, [0, 0, gone.len() as i64]).await?;
            tx.commit().await?;
            tracing::warn!(
                peer.issuer = lease.issuer,
                "{} messages for {} waited too long and are removed",
                gone.len(),
                lease.issuer
            );
        }
    }

    /// Gives the lease back: nothing waits any more, or the domain is tried again later.
    pub(super) async fn release(
        &self,
        lease: &Lease,
        failure: Option<DeliveryFailure<'_>>,
    ) -> sqlx::Result<()> {
        let (attempts, next_try, error) = match &failure {
            Some(failure) => (lease.attempts + 1, failure.next_try, Some(failure.error)),
            None => (0, 0, None),
        };
        if let Some(DeliveryFailure { may_have_arrived: Some(at), .. }) = failure {
            self.mark_tried(lease, at).await?;
        }
        sqlx::query(
            "UPDATE outbox_peer SET leased_until = 0, attempts = $3, next_try = $4, last_error = $5, sending = 0
             WHERE issuer = $1 AND fence = $2",
        )
        .bind(lease.issuer.as_str())
        .bind(lease.fence)
        .bind(attempts)
        .bind(next_try)
        .bind(error)
        .execute(self.db.write_alone())
        .await?;
        self.held.lock().remove(&lease.issuer);
        Ok(())
    }

    /// A process that stops leaves its leases to the others at once. What is being sent may arrive twice: the second time it
    /// is a duplicate.
    pub async fn release_all(&self) -> sqlx::Result<()> {
        let held: Vec<(String, i64)> = self.held.lock().drain().collect();
        for (issuer, fence) in held {
            sqlx::query("UPDATE outbox_peer SET leased_until = 0 WHERE issuer = $1 AND fence = $2")
                .bind(issuer)
                .bind(fence)
                .execute(self.db.write_alone())
                .await?;
        }
        Ok(())
    }
}
