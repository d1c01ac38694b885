//! Cancelling without the queue of changes: enough for the tests of sessions.

use crate::RunService;
use crate::error::Error;

impl RunService {
    pub(crate) async fn cancel_command_now(
        &self,
        command_id: String,
        _: Option<String>,
    ) -> Result<(), Error> {
        let mut tx = self.store.db().begin().await?;
        sqlx::query("UPDATE run_session SET active_command = NULL, state = 'terminal', version = version + 1 WHERE active_command = $1")
            .bind(command_id)
            .execute(&mut *tx)
            .await?;
        Ok(self.store.db().commit(tx).await?)
    }

    pub(crate) async fn cancel_run_now(&self, run_id: String, _: Option<String>) -> Result<(), Error> {
        let mut tx = self.store.db().begin().await?;
        sqlx::query("UPDATE run_session SET active_run = NULL, state = 'terminal', version = version + 1 WHERE active_run = $1")
            .bind(run_id)
            .execute(&mut *tx)
            .await?;
        Ok(self.store.db().commit(tx).await?)
    }
}
