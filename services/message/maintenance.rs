//! What the service does by itself: index messages, and remove what is too old, in steps too small to be noticed.

use super::MessageService;
use super::store::tool_calls;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);
/// So many unindexed messages are worth a transaction at once; fewer wait for a second.
const INDEX_AT_ONCE: usize = 8192;
const INDEX_EVERY: u32 = 10;
/// Between two statements that index.
const PAUSE: Duration = Duration::from_millis(1);
/// With so many messages waiting there are no pauses: at some point nothing more would be accepted.
const NO_PAUSE: usize = 32_768;
/// Often enough that no commit has to do it because the journal is too long.
const CHECKPOINT_EVERY: u32 = 10;
const REMOVE_EVERY: u32 = 100;
/// How often it is written how much was stored.
const COUNT_EVERY: u32 = 50;
const REMOVE_ROWS: usize = 200;
/// All positions are read for this: once an hour.
const REMOVE_SLOTS_EVERY: u32 = 36_000;

impl MessageService {
    /// Runs until the server stops. What it did not get to is done after the next start.
    pub(super) async fn maintain(&self) {
        if let Err(error) = self.store.fill_filter(self.clock.now_ms()).await {
            tracing::warn!("the stored messages could not be read into the filter: {error}");
        }
        let mut tick = 0_u32;
        loop {
            tokio::time::sleep(TICK).await;
            tick = tick.wrapping_add(1);
            let (unindexed, _) = self.store.unindexed();
            if unindexed >= INDEX_AT_ONCE || (unindexed > 0 && tick.is_multiple_of(INDEX_EVERY)) {
                self.index_all().await;
            }
            if tick.is_multiple_of(CHECKPOINT_EVERY) {
                self.checkpoint().await;
            }
            if tick.is_multiple_of(COUNT_EVERY) {
                self.write_counts().await;
            }
            if tick.is_multiple_of(REMOVE_EVERY) {
                self.remove_old().await;
                self.remove_forgotten().await;
            }
            if tick.is_multiple_of(REMOVE_SLOTS_EVERY) {
                self.remove_slots().await;
            }
        }
    }

    async fn checkpoint(&self) {
        if let Err(error) = self.store.checkpoint().await {
            tracing::warn!("the journal could not be checkpointed, will retry: {error}");
        }
    }

    async fn write_counts(&self) {
        if let Err(error) = self.quotas.write(self.clock.now_ms()).await {
            tracing::warn!("storage totals could not be written, will try again: {error}");
        }
    }

    /// Removes what nobody has used for long: devices, and rows that were needed for a while.
    pub(super) async fn remove_forgotten(&self) {
        let now = self.clock.now_ms();
        if let Err(error) = self.inboxes.expire(now - self.device_ms, now).await {
            tracing::warn!(
                "devices that were not seen for long could not be removed, will try again: {error}"
            );
        }
        let removed = [
            ("devices that were removed", self.store.forget_removed_inboxes().await),
            ("old counts of stored bytes", self.quotas.remove_old(now).await),
            ("old rows of the replay guard", self.keys.remove_expired(now).await),
        ];
        for (what, removed) in removed {
            if let Err(error) = removed {
                tracing::warn!("{what} could not be removed, will try again: {error}");
            }
        }
    }

    async fn remove_slots(&self) {
        if let Err(error) = self.store.remove_slots().await {
            tracing::warn!(
                "the read positions of devices with too many slots could not be removed, will try again: {error}"
            );
        }
    }

    async fn index_all(&self) {
        loop {
            let (unindexed, _) = self.store.unindexed();
            let pause = if unindexed < NO_PAUSE { PAUSE } else { Duration::ZERO };
            match self.store.index_oldest(pause).await {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!("messages could not be indexed, will try again: {error}");
                    return;
                }
            }
        }
    }

    pub(super) async fn remove_old(&self) {
        let now = self.clock.now_ms();
        self.queue_messages.remove_expired(now);
        self.volatile.remove_expired(now);
        self.volatile_sent.remove_expired(now);
        self.store.rotate_filter(now, self.retention_ms);
        if let Err(error) = self.recent_peers.purge(now).await {
            tracing::warn!(
                "the record of which domains were written to could not be removed, will try again: {error}"
            );
        }
        if let Err(error) = tool_calls::remove_quiet(self.store.db(), now).await {
            tracing::warn!("old counts of tool calls could not be removed, will try again: {error}");
        }
        loop {
            match self.store.remove_old(now - self.retention_ms, REMOVE_ROWS).await {
                Ok(rows) if rows == REMOVE_ROWS => tokio::task::yield_now().await,
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!("old messages could not be removed, will try again: {error}");
                    return;
                }
            }
        }
    }
}
