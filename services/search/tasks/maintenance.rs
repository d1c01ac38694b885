//! What happens by the clock: snapshots, compaction, retention, and peers that fall silent.

use crate::sync::DROPPED_AFTER_MS;
use crate::{Error, SearchService, ap_id};
use kernel::iso;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(10);
/// Removing takes longer than looking, and nobody waits for it.
const REMOVE_EVERY: u32 = 30;
const DAY_MS: i64 = 86_400_000;
/// When an entry that a later one replaces may be removed.
const COMPACT_AFTER_MS: i64 = DAY_MS;
/// How long the log is kept, and how many entries of it.
const RETENTION_MS: i64 = 30 * DAY_MS;
const RETENTION_ENTRIES: i64 = 1_000_000;
/// How long a query is remembered.
const QUERY_DAYS: i64 = 7;
/// A domain that has not asked for so long does not copy from us any more.
const FOLLOWER_MS: i64 = DAY_MS;
/// Documents that are removed in one transaction.
const REMOVE_STEP: i64 = 500;

impl SearchService {
    /// Runs until the server stops.
    pub(crate) async fn maintain(&self) {
        let mut tick = 0_u32;
        loop {
            if let Err(error) = self.tick().await {
                tracing::warn!("the directory could not be maintained, will try again: {error}");
            }
            if tick.is_multiple_of(REMOVE_EVERY)
                && let Err(error) = self.remove_old().await
            {
                tracing::warn!("old entries of the directory could not be removed, will try again: {error}");
            }
            tick = tick.wrapping_add(1);
            tokio::time::sleep(EVERY).await;
        }
    }

    /// What is due often: a snapshot once a day, and what was asked meanwhile.
    pub(crate) async fn tick(&self) -> Result<(), Error> {
        let now = self.clock.now_ms();
        // Texts of this form sort as the times do.
        if self.store.newest_daily().await?.is_none_or(|newest| newest < iso(midnight(now))) {
            self.freeze_daily().await?;
        }
        self.store.remove_unread_snapshots(now).await?;
        self.metrics.agents.set(self.store.listed().await?);
        let asked = self.query_stats.take();
        let day = now.div_euclid(DAY_MS);
        if !asked.is_empty() {
            self.store.add_queries(day, &asked).await?;
        }
        self.query_stats.set(self.store.queries(day - QUERY_DAYS + 1).await?);
        Ok(())
    }

    /// The snapshot of the last midnight: of the directory as it is when this is done.
    pub(crate) async fn freeze_daily(&self) -> Result<(), Error> {
        let now = self.clock.now_ms();
        Ok(self.store.freeze_daily(&iso(midnight(now)), now).await?)
    }

    pub(crate) async fn remove_old(&self) -> Result<(), Error> {
        let now = self.clock.now_ms();
        self.store.compact(now - COMPACT_AFTER_MS).await?;
        self.store.retain(now - RETENTION_MS, RETENTION_ENTRIES).await?;
        self.store.remove_old_versions().await?;
        self.store.remove_queries(now.div_euclid(DAY_MS) - QUERY_DAYS).await?;
        self.store.remove_followers(now - FOLLOWER_MS).await?;
        for peer in self.store.peers().await? {
            if now - peer.last_ok_at > DROPPED_AFTER_MS {
                self.drop_peer(&peer.issuer).await?;
            }
        }
        Ok(())
    }

    /// Removes everything that was copied from a peer.
    async fn drop_peer(&self, issuer: &str) -> Result<(), Error> {
        let source = ap_id(issuer);
        loop {
            let mut log = self.store.write_log(self.clock.now_ms()).await?;
            // No copy has this number, so none of them is spared.
            let removed = log.remove_not_seen(&source, -1, REMOVE_STEP).await?;
            if removed == 0 {
                log.forget_peer(issuer).await?;
            }
            if self.store.commit(log).await? {
                self.log_changed(false);
            }
            if removed == 0 {
                tracing::info!(
                    peer.issuer = issuer,
                    "{issuer} has not answered for too long, its agents are removed"
                );
                return Ok(());
            }
        }
    }
}

fn midnight(now: i64) -> i64 {
    now - now.rem_euclid(DAY_MS)
}
