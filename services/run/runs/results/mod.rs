//! Results: folded over all pages of the log.

mod command_result;
mod folds;
mod result;

pub(crate) use folds::KnownFolds;

use crate::RunService;
use crate::access::payer_of;
use crate::error::Error;
use crate::model::liveness::LeaseFacts;
use crate::model::result::{CommandFacts, FailureFacts, FoldedEvent, ResultFacts};
use crate::model::run::Failure;
use crate::shown::kind_of;
use crate::store::{CommandRead, PagedEvents, RunFacts};
use folds::KnownFold;
use kernel::CpuOwner;
use proto_schemas::requests::run::{Liveness, RunResult};

/// Events of one page, and the most that are read for one result.
pub(super) const PAGE: i64 = 500;
pub(super) const MOST_EVENTS: i64 = 100_000;
/// Payloads up to this size are read where they are.
const SMALL: usize = 64 << 10;

impl RunService {
    /// Whether something is going on in a run, and in its newest command.
    pub(crate) async fn liveness_of(&self, run_id: &str) -> Result<Option<Liveness>, Error> {
        let Some(run) = self.store.run(run_id).await? else { return Ok(None) };
        let command = self.store.newest_command(run_id).await?;
        Ok(Some(self.result_of(&run, command.as_ref()).await?.liveness))
    }

    /// The rows were read before the log is: so where they say that something has ended, its event is in what is read here.
    pub(super) async fn result_of(
        &self,
        run: &RunFacts,
        command: Option<&CommandRead>,
    ) -> Result<RunResult, Error> {
        let scope = command.map(|command| command.row.id.as_str());
        let mut known = self.folds.get(&run.row.id, scope);
        known.fold.targets(command.and_then(|command| command.row.target.as_deref()));
        let last_seq = loop {
            let limit = PAGE.min(MOST_EVENTS - known.after_seq);
            let page = self.store.events_page(&run.row.id, known.after_seq, limit, &[]).await?;
            let last_seq = page.last_seq;
            known = self.folded(&run.row.tenant, known, page).await?;
            if known.after_seq >= last_seq || known.after_seq >= MOST_EVENTS {
                break last_seq;
            }
            // Others have their turn between two pages.
            tokio::task::yield_now().await;
        };
        self.folds.keep(&run.row.id, scope, &known);
        let KnownFold { fold, after_seq } = known;
        let now = self.clock.now_ms();
        let (run, command) = (&run.row, command.map(|command| &command.row));
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
            last_seq,
            capped: after_seq >= MOST_EVENTS && after_seq < last_seq,
            lease: lease
                .map(|runner_id| LeaseFacts { runner_id, expires_at: run.lease.ends_at(self.started_at()) }),
            heartbeat_at: run.lease.heartbeat_at,
            now,
        };
        Ok(fold.finish(&facts))
    }

    /// Adds a page to a fold: beside the threads of the runtime, where the page is large.
    async fn folded(&self, tenant: &str, known: KnownFold, page: PagedEvents) -> Result<KnownFold, Error> {
        let bytes: usize = page.events.iter().map(|event| event.payload.len()).sum();
        if bytes <= SMALL {
            return fold_page(known, &page);
        }
        let owner = CpuOwner::Token(payer_of(tenant));
        self.cpu.run(owner, move || fold_page(known, &page)).await?
    }
}

fn fold_page(mut known: KnownFold, page: &PagedEvents) -> Result<KnownFold, Error> {
    for row in &page.events {
        known.fold.push(&FoldedEvent {
            seq: row.seq,
            kind: kind_of(&row.kind)?,
            command_id: row.command_id.as_deref(),
            attempt_id: row.attempt_id.as_deref(),
            payload: &row.payload,
            created_at: row.created_at,
        });
    }
    known.after_seq = page.next_after_seq;
    Ok(known)
}

pub(super) fn failure_facts(failure: &Failure) -> FailureFacts<'_> {
    FailureFacts { kind: failure.kind.as_deref(), message: failure.message.as_deref() }
}
