//! `run.result` and `run.command_result`: folded over all pages of the log.

use crate::RunService;
use crate::error::Error;
use crate::model::result::{FoldedEvent, ResultFacts, ResultFold};
use crate::shown::kind_of;
use crate::store::{CommandFacts, RunFacts};
use kernel::Caller;
use proto_schemas::requests::run::{CommandResult, Liveness, RunResult};
use std::sync::Arc;

/// Events of one page, and the most that are read for one result.
const PAGE: i64 = 500;
const MOST_EVENTS: i64 = 100_000;

impl RunService {
    pub(crate) async fn result(
        self: Arc<Self>,
        caller: Caller,
        params: proto_schemas::requests::run::Result,
    ) -> Result<RunResult, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let command = match &params.command_id {
            Some(id) => Some(self.command_of(&run, id).await?),
            None => self.store.newest_command(&run.row.id).await?,
        };
        self.result_of(&run, command.as_ref()).await
    }

    pub(crate) async fn command_result(
        self: Arc<Self>,
        caller: Caller,
        params: CommandResult,
    ) -> Result<RunResult, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let command = self.command_of(&run, &params.command_id).await?;
        self.result_of(&run, Some(&command)).await
    }

    /// Whether something is going on in a run, and in its newest command.
    pub(crate) async fn liveness_of(&self, run_id: &str) -> Result<Option<Liveness>, Error> {
        let Some(run) = self.store.run(run_id).await? else { return Ok(None) };
        let command = self.store.newest_command(run_id).await?;
        Ok(Some(self.result_of(&run, command.as_ref()).await?.liveness))
    }

    async fn result_of(&self, run: &RunFacts, command: Option<&CommandFacts>) -> Result<RunResult, Error> {
        let scope = command.map(|command| command.row.id.as_str());
        let mut fold = ResultFold::new(scope);
        let mut after_seq = 0;
        loop {
            let limit = PAGE.min(MOST_EVENTS - after_seq);
            let page = self.store.events_page(&run.row.id, after_seq, limit, &[]).await?;
            for row in &page.events {
                fold.push(&FoldedEvent {
                    seq: row.seq,
                    kind: kind_of(&row.kind)?,
                    command_id: row.command_id.as_deref(),
                    attempt_id: row.attempt_id.as_deref(),
                    payload: &row.payload,
                    created_at: row.created_at,
                });
            }
            after_seq = page.next_after_seq;
            if after_seq >= page.last_seq || after_seq >= MOST_EVENTS {
                break;
            }
            // Others have their turn between two pages.
            tokio::task::yield_now().await;
        }
        // Read again: what ended meanwhile is in the log that was read, or in these rows.
        let run = self.store.run(&run.row.id).await?.unwrap_or_else(|| run.clone());
        let command = match command {
            Some(command) => self.store.command(&command.row.id).await?,
            None => None,
        };
        let now = self.clock.now_ms();
        let facts = ResultFacts {
            run: &run.row,
            command: command.as_ref().map(|command| &command.row),
            events_capped: after_seq >= MOST_EVENTS && after_seq < run.row.last_seq,
            next_after_seq: after_seq,
            now,
            started_at: self.started_at,
        };
        Ok(fold.finish(&facts))
    }
}

