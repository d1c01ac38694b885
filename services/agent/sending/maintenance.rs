//! Removes what is too old to be of use.

use crate::{AgentService, Error};
use kernel::RpcError;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(3600);
/// How long a revoked relation is shown.
const REVOKED_MS: i64 = 30 * 86_400_000;

impl AgentService {
    /// Runs until the server stops.
    pub(crate) async fn maintain(&self) {
        loop {
            if let Err(error) = self.remove_old().await {
                tracing::warn!("old relations are removed later: {}", RpcError::from(error));
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Returns how many relations were removed.
    pub(crate) async fn remove_old(&self) -> Result<u64, Error> {
        let now = self.clock.now_ms();
        self.store.remove_proofs(now).await?;
        Ok(self.store.remove_revoked_relations(now - REVOKED_MS).await?)
    }
}
