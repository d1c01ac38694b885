//! What services keep for an agent is removed when its AID ends: when it was revoked, or its name lapsed.
//!
//! Every service says what that is, or why it keeps nothing ([`AgentRemoval`]): there is no `Service` without it. `ca` has the list of
//! AIDs that ended (`ca.ended_agents`). A task of each service reads it from the second on that the service has stored, and goes on from
//! there after a failure, a restart or a crash, so an agent that ended while a service was down is found, too. That a certificate was
//! revoked is also published, which only wakes the task.

mod position;
#[cfg(test)]
mod tests;

use crate::{AgentRemoval, Aid, Backoff, Bus, Caller, Clock, Db, Mesh, RpcError, Task, World};
use proto_schemas::requests::ca;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const PAGE: i64 = 500;
/// So far back it looks each time: a revocation is stored a moment after the time it has, clocks differ, and what an agent was doing
/// when it was revoked is stored after it.
const OVERLAP_SECONDS: i64 = 600;
/// A pass ends early after so many agents of whom something is left: then the store is down, and not one row of it damaged.
const MOST_FAILURES: usize = 10;

/// How many failures in a row are not worth a warning.
const WARN_AFTER: u32 = 3;

/// What a service does when an AID ends.
pub trait RemoveAgent: Send + Sync + 'static {
    /// Removes everything that is kept for an agent of this domain whose AID ended in this second, a bounded part in each transaction.
    /// It is called several times for each, also after it has succeeded and by several processes at once.
    fn remove_agent(&self, aid: &Aid, ended_at: i64) -> impl Future<Output = Result<(), RpcError>> + Send;
}

/// Follows the list of AIDs that ended, for one service.
pub struct AgentRemover<R> {
    service: &'static str,
    /// The database of the service, with the table `agent_removal`.
    db: Db,
    remover: Arc<R>,
    /// A certificate was revoked.
    revoked: Arc<Notify>,
    mesh: Arc<Mesh>,
    clock: Clock,
    stop: CancellationToken,
}

/// What a pass over the list has come to.
struct RemovalPass {
    removed: usize,
    failures: usize,
    /// Since when the first agent has ended of whom something is left, and why.
    first_failure: Option<(i64, RpcError)>,
}

impl<R: RemoveAgent> AgentRemover<R> {
    pub fn new(world: &World, service: &'static str, db: &Db, remover: Arc<R>) -> AgentRemover<R> {
        AgentRemover {
            service,
            db: db.clone(),
            remover,
            revoked: revocations(&world.bus),
            mesh: world.mesh.clone(),
            clock: world.clock.clone(),
            stop: world.stop.clone(),
        }
    }

    /// Has the service run this as one of its tasks.
    pub fn removal(self) -> AgentRemoval {
        let remover = Arc::new(self);
        AgentRemoval::by(Task::new("agent_removal", move || {
            let remover = remover.clone();
            async move {
                remover.stop.run_until_cancelled(remover.follow()).await;
            }
        }))
    }

    /// Runs until the server stops.
    async fn follow(&self) {
        let (mut backoff, mut failures) = (Backoff::new(FIRST_WAIT, EVERY), 0_u32);
        loop {
            if let Err(error) = self.remove_ended().await {
                failures += 1;
                self.log_failure(failures, &error);
                backoff.wait().await;
                continue;
            }
            backoff.reset();
            failures = 0;
            tokio::select! {
                () = self.revoked.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// That `ca` is down for a moment is nothing for an operator to look at.
    fn log_failure(&self, in_a_row: u32, error: &RpcError) {
        let service = self.service;
        match in_a_row {
            ..=WARN_AFTER => {
                tracing::info!("{service} postpones the removal of the data of ended agents: {error}")
            }
            _ => tracing::warn!("{service} cannot remove the data of ended agents, will retry: {error}"),
        }
    }

    /// Removes what is kept for all agents that ended since the position that is stored, and stores how far it got. Returns how many
    /// agents that were.
    ///
    /// One agent whose removal fails holds up neither the others nor what is done for them; only the position stays before it.
    pub async fn remove_ended(&self) -> Result<usize, RpcError> {
        let position = position::read(&self.db).await?;
        let done_until = self.clock.now_seconds() - OVERLAP_SECONDS;
        let mut pass = RemovalPass { removed: 0, failures: 0, first_failure: None };
        let mut wanted = ca::EndedAgents { since: position, after_aid: None, limit: Some(PAGE) };
        loop {
            let page = self.mesh.ask(Caller::service(self.service), &wanted).await?;
            self.remove_all(&page.agents, &mut pass).await;
            let last = page.agents.last().filter(|_| page.has_more && pass.failures < MOST_FAILURES);
            let Some(last) = last else { break };
            self.store_position(position, last.ended_at.min(done_until), &pass).await?;
            wanted = ca::EndedAgents {
                since: last.ended_at,
                after_aid: Some(last.aid.clone()),
                limit: Some(PAGE),
            };
        }
        self.store_position(position, done_until, &pass).await?;
        pass.first_failure.map_or(Ok(pass.removed), |(_, error)| Err(error))
    }

    async fn remove_all(&self, agents: &[ca::EndedAgent], pass: &mut RemovalPass) {
        for agent in agents {
            // What is no AID was never one of an agent.
            let Ok(aid) = Aid::parse(&agent.aid) else { continue };
            match self.remover.remove_agent(&aid, agent.ended_at).await {
                Ok(()) => pass.removed += 1,
                Err(error) => {
                    pass.failures += 1;
                    pass.first_failure.get_or_insert((agent.ended_at, error));
                }
            }
            if pass.failures >= MOST_FAILURES {
                return;
            }
        }
    }

    /// Stores that everything before a second is done, but nothing that failed. Not for every pass: most find nothing new.
    async fn store_position(&self, stored: i64, done_until: i64, pass: &RemovalPass) -> sqlx::Result<()> {
        let failed_at = pass.first_failure.as_ref().map_or(i64::MAX, |(ended_at, _)| *ended_at);
        let position = done_until.min(failed_at);
        if position - stored < OVERLAP_SECONDS && pass.removed == 0 {
            return Ok(());
        }
        position::advance(&self.db, position).await
    }
}

/// Notified when a certificate was revoked.
fn revocations(bus: &Bus) -> Arc<Notify> {
    let revoked = Arc::new(Notify::new());
    let notified = revoked.clone();
    bus.listen(move |event| {
        if event.as_signal::<ca::CertRevoked>().is_some() {
            notified.notify_one();
        }
    });
    revoked
}
