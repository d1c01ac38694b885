//! Results: folded over all pages of the log.

mod command_result;
mod result;

use crate::RunService;
use crate::error::Error;
use crate::model::liveness::LeaseFacts;
use crate::model::result::{CommandFacts, FailureFacts, FoldedEvent, ResultFacts, ResultFold};
use crate::model::run::Failure;
use crate::shown::kind_of;
use crate::store::{CommandRead, RunFacts};
use proto_schemas::requests::run::{Liveness, RunResult};

/// Events of one page, and the most that are read for one result.
pub(super) const PAGE: i64 = 500;
pub(super) const MOST_EVENTS: i64 = 100_000;

impl RunService {
    /// Whether something is going on in a run, and in its newest command.
    pub(crate) async fn liveness_of(&self, run_id: &str) -> Result<Option<Liveness>, Error> {
        let Some(run) = self.store.run(run_id).await? else { return Ok(None) };
        let command = self.store.newest_command(run_id).await?;
        Ok(Some(self.result_of(&run, command.as_ref()).await?.liveness))
    }

    pub(super) async fn result_of(
        &self,
        run: &RunFacts,
        command: Option<&CommandRead>,
    ) -> Result<RunResult, Error> {
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
        let (run, command) = (&run.row, command.as_ref().map(|command| &command.row));
        let lease = run.lease.runner.as_deref().filter(|_| !run.lease.released);
        let facts = ResultFacts {
            run_id: &run.id,
            run_status: run.status,
            run_failure: failure_facts(&run.failure),
            command: command.map(|command| CommandFacts {
                command_id: &command.id,
                kind: command.kind,
                state: command.state,
                failure: failure_facts(&command.failure),
                target_id: command.target.as_deref(),
                acknowledged: command.acknowledged_at.is_some(),
            }),
            last_seq: run.last_seq,
            capped: after_seq >= MOST_EVENTS && after_seq < run.last_seq,
            lease: lease
                .map(|runner_id| LeaseFacts { runner_id, expires_at: run.lease.ends_at(self.started_at) }),
            heartbeat_at: run.lease.heartbeat_at,
            now,
        };
        Ok(fold.finish(&facts))
    }
}

pub(super) fn failure_facts(failure: &Failure) -> FailureFacts<'_> {
    FailureFacts { kind: failure.kind.as_deref(), message: failure.message.as_deref() }
}
