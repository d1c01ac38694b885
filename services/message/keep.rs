//! What the service does by itself: file messages, and remove what is too old, in steps too small to be noticed.

use super::Message;
use std::time::Duration;

/// Messages live a day.
const TTL_MS: i64 = 86_400_000;
const TICK: Duration = Duration::from_millis(100);
/// So many unfiled messages are worth a transaction at once; fewer wait for a second.
const WORTH_FILING: usize = 8192;
const FILE_EVERY: u32 = 10;
/// Between two slices of what is filed.
const PAUSE: Duration = Duration::from_millis(1);
/// With so many messages waiting there are no pauses: at some point nothing more would be taken.
const HURRY: usize = 32_768;
/// Before the journal is so long that a commit has to do it.
const CHECKPOINT_EVERY: u32 = 10;
const PURGE_EVERY: u32 = 100;
const PURGE_ROWS: usize = 200;

impl Message {
    /// Runs until the server stops. What it did not get to is done after the next start.
    pub(super) async fn keep(&self) {
        if let Err(error) = self.store.fill_filter(self.clock.now_ms()).await {
            tracing::warn!("the stored messages could not be read through: {error}");
        }
        let mut tick = 0_u32;
        loop {
            tokio::time::sleep(TICK).await;
            tick = tick.wrapping_add(1);
            let (unfiled, _) = self.store.unfiled();
            if unfiled >= WORTH_FILING || (unfiled > 0 && tick.is_multiple_of(FILE_EVERY)) {
                self.file().await;
            }
            if tick.is_multiple_of(CHECKPOINT_EVERY) {
                self.checkpoint().await;
            }
            if tick.is_multiple_of(PURGE_EVERY) {
                self.purge().await;
            }
        }
    }

    async fn checkpoint(&self) {
        if let Err(error) = self.store.checkpoint().await {
            tracing::warn!("the journal could not be moved into its file, will try again: {error}");
        }
    }

    async fn file(&self) {
        loop {
            let (unfiled, _) = self.store.unfiled();
            let pause = if unfiled < HURRY { PAUSE } else { Duration::ZERO };
            match self.store.file(pause).await {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!("messages could not be filed, will try again: {error}");
                    return;
                }
            }
        }
    }

    pub(super) async fn purge(&self) {
        let now = self.clock.now_ms();
        self.rings.purge(now);
        self.volatile.purge(now);
        self.fleeting_sent.purge(now);
        self.store.turn_filter(now, TTL_MS);
        if let Err(error) = self.recent_peers.purge(now).await {
            tracing::warn!("which domains were written to could not be forgotten, will try again: {error}");
        }
        loop {
            match self.store.purge(now - TTL_MS, PURGE_ROWS).await {
                Ok(rows) if rows == PURGE_ROWS => tokio::task::yield_now().await,
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!("old messages could not be removed, will try again: {error}");
                    return;
                }
            }
        }
    }
}
