//! Removes what agents wrote in tasks that ended a while ago, the oldest first, where their share is nearly full: a new text is more
//! important than such an old one.

use crate::TaskService;
use crate::model::error::Error;
use crate::store::keeping::is_own_share;
use kernel::{AccountFull, Aid, Kept};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);
/// Counted in the above: how often all accounts are looked at.
const LOOK_EVERY: u32 = 60;
/// When an agent that was refused finds space.
const RETRY_AFTER_MS: i64 = 3000;
/// Agents that wait for space. Others are found when all accounts are looked at.
const MOST_WAITING: usize = 1000;

/// Agents that were refused because their share was full, though something old could go.
#[derive(Default)]
pub(crate) struct WaitingForSpace(Mutex<BTreeSet<Aid>>);

impl WaitingForSpace {
    fn add(&self, author: Aid) {
        let mut waiting = self.0.lock();
        if waiting.len() < MOST_WAITING {
            waiting.insert(author);
        }
    }

    fn take(&self) -> BTreeSet<Aid> {
        std::mem::take(&mut self.0.lock())
    }
}

impl TaskService {
    /// Runs until the server stops.
    pub(crate) async fn remove_old_content(&self) {
        let mut tick = 0_u32;
        loop {
            if let Err(error) = self.make_space(tick.is_multiple_of(LOOK_EVERY)).await {
                tracing::warn!(
                    "old texts of agents whose share is full could not be removed, will try again: {error}"
                );
            }
            tick = tick.wrapping_add(1);
            tokio::time::sleep(EVERY).await;
        }
    }

    /// For the agents that wait for it, and for all whose share is nearly full if those are looked for.
    pub(crate) async fn make_space(&self, look: bool) -> Result<(), Error> {
        for author in self.waiting_for_space.take() {
            self.make_space_for(&author).await?;
        }
        if look { self.make_space_for_all().await } else { Ok(()) }
    }

    async fn make_space_for_all(&self) -> Result<(), Error> {
        let mut after = String::new();
        loop {
            let found = self.store.account.nearly_full(&after).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = last.to_string();
            for author in &found {
                self.make_space_for(author).await?;
            }
        }
    }

    async fn make_space_for(&self, author: &Aid) -> Result<(), Error> {
        let before = self.old_content_before();
        while let Some(tasks) = self.store.remove_old_content(author, before).await? {
            self.metrics.content_removed.inc_by(tasks);
        }
        Ok(())
    }

    /// The refusal of an agent that has too much: it may try again soon if something old is removed meanwhile.
    pub(crate) async fn refused(&self, full: AccountFull, author: Aid) -> Error {
        if !is_own_share(&full) {
            return full.into();
        }
        match self.can_make_space(&author).await {
            Ok(true) => {
                self.waiting_for_space.add(author);
                AccountFull { retry_after_ms: Some(RETRY_AFTER_MS), ..full }.into()
            }
            Ok(false) => full.into(),
            Err(error) => error.into(),
        }
    }

    async fn can_make_space(&self, author: &Aid) -> sqlx::Result<bool> {
        let mut connection = self.store.db().read().acquire().await?;
        let excess = self.store.account.excess(&mut connection, author).await?;
        drop(connection);
        Ok(excess != Kept::default() && self.store.has_old_content(author, self.old_content_before()).await?)
    }

    fn old_content_before(&self) -> i64 {
        self.clock.now_ms() - self.keep_content_ms
    }
}
