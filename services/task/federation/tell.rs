//! Tells other domains of what happened to tasks that their agents take part in.
//!
//! Each domain is told by itself: one that is away or slow holds up nobody but itself. What is new is told at once, from memory, by the
//! process that changed it. What was not told, because the domain was away or this server stopped, is in the outbox and told as it is
//! by then. Both may tell the same: the second time it has no effect.

use super::calls::unreadable;
use super::draft::{TaskRelay, relay_now};
use super::queues::fitting;
use super::settle::UNREACHABLE;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::task::TaskRow;
use crate::store::MOST_DOMAINS;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kernel::{
    Caller, OutboxPage, OutboxRow, OutboxSender, PageOutcome, RowEnd, RpcError, SettledRow, codes,
    forward_for_service,
};
use proto_schemas::Request as _;
use proto_schemas::requests::task::{RelayEvent, RelayedEvents};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::{BTreeSet, HashSet};

/// The parameters of `task.relay_event`, as they were written.
#[derive(Serialize)]
struct RelayedItems<'a> {
    items: Vec<&'a RawValue>,
}

impl OutboxSender for TaskService {
    async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
        Ok(match self.tell_marked(&page).await {
            Ok(settled) => PageOutcome { settled, ..PageOutcome::default() },
            Err(error) => {
                self.metrics.relays_failed.inc();
                PageOutcome::failed(error.to_string())
            }
        })
    }
}

impl TaskService {
    /// Tells what is new. Runs until the server stops.
    pub(crate) async fn relay(&self) {
        let (mut telling, mut busy) = (FuturesUnordered::new(), HashSet::new());
        loop {
            for issuer in self.relays.waiting() {
                if busy.len() < MOST_DOMAINS && busy.insert(issuer.clone()) {
                    telling.push(async move {
                        self.tell_new(&issuer).await;
                        issuer
                    });
                }
            }
            tokio::select! {
                Some(issuer) = telling.next(), if !telling.is_empty() => { busy.remove(&issuer); }
                () = self.relays.wake.notified() => {}
            }
        }
    }

    /// Tells a domain of what is new until nothing is left, or it cannot be told: then the rest is dropped, and the outbox has it.
    pub(crate) async fn tell_new(&self, issuer: &str) {
        let Err(error) = self.try_tell_new(issuer).await else { return };
        self.relays.clear(issuer);
        self.metrics.relays_failed.inc();
        tracing::debug!(
            peer.issuer = issuer,
            "{issuer} cannot be notified of its tasks, will retry: {error}"
        );
        if let Err(error) = self.store.outbox.count_failure(issuer, &error.to_string()).await {
            tracing::warn!(peer.issuer = issuer, "the failed delivery to {issuer} was not stored: {error}");
        }
    }

    async fn try_tell_new(&self, issuer: &str) -> Result<(), Error> {
        loop {
            let relays = self.relays.take(issuer);
            if relays.is_empty() {
                return Ok(());
            }
            if self.tell(issuer, &relays).await? {
                let told = relays.iter().map(|relay| (relay.task_id.as_str(), relay.version));
                self.store.outbox.remove_marks(issuer, told).await?;
            }
        }
    }

    /// Tells a domain of the tasks of its marks as they are now, as many as fit into one call.
    async fn tell_marked(&self, page: &OutboxPage) -> Result<Vec<SettledRow>, Error> {
        let tasks = self.tasks_of(page).await?;
        let is_gone = |row: &&OutboxRow| !tasks.iter().any(|task| task.id.as_str() == row.key);
        let gone = page.rows.iter().filter(is_gone);
        let mut settled: Vec<SettledRow> = gone.map(|row| given_up(row, "the task was removed")).collect();
        let relays = self.relays_of(&tasks, &page.destination).await?;
        if relays.is_empty() {
            return Ok(settled);
        }
        if !self.tell(&page.destination, &relays).await? {
            return Ok(page.rows.iter().map(|row| given_up(row, "the domain takes no tasks")).collect());
        }
        settled.extend(relays.into_iter().map(|relay| SettledRow {
            key: relay.task_id.to_string(),
            version: relay.version,
            end: RowEnd::Delivered,
        }));
        Ok(settled)
    }

    /// The tasks of marks, in the order of these.
    async fn tasks_of(&self, page: &OutboxPage) -> Result<Vec<TaskRow>, Error> {
        let keys: Vec<&str> = page.rows.iter().map(|row| row.key.as_str()).collect();
        let mut tasks = self.store.marked_tasks(&keys).await?;
        tasks.sort_by_key(|task| keys.iter().position(|key| *key == task.id.as_str()));
        Ok(tasks)
    }

    async fn relays_of(&self, tasks: &[TaskRow], issuer: &str) -> Result<Vec<TaskRelay>, Error> {
        let ids: BTreeSet<_> = tasks.iter().map(|task| task.id.clone()).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let subscribers = self.store.subscribers(&ids, self.clock.now_ms()).await?;
        let relays = tasks.iter().map(|task| relay_now(task, issuer, &subscribers));
        let mut relays = relays.collect::<Result<Vec<_>, _>>()?;
        relays.truncate(fitting(relays.iter()));
        Ok(relays)
    }

    /// Tells a domain, and ends tasks that cannot reach its agents. False: it takes no tasks, and nothing waits for it any more.
    async fn tell(&self, issuer: &str, relays: &[TaskRelay]) -> Result<bool, Error> {
        match self.ask(issuer, relays).await {
            Ok(answer) => self.end_refused(issuer, relays, &answer).await.map(|()| true),
            Err(error) => match final_reason(&error) {
                Some(reason) => {
                    tracing::info!(peer.issuer = issuer, "{issuer} refuses tasks: {error}");
                    self.give_up(issuer, reason).await.map(|()| false)
                }
                None => Err(error.into()),
            },
        }
    }

    async fn ask(&self, issuer: &str, relays: &[TaskRelay]) -> Result<RelayedEvents, RpcError> {
        let params = RelayedItems { items: relays.iter().map(|relay| &*relay.text).collect() };
        let forward = forward_for_service(issuer, RelayEvent::METHOD, &params)?;
        let answer = self.mesh.forward("task", &Caller::service("task"), forward).await?;
        self.metrics.relays_sent.inc_by(relays.len() as u64);
        serde_json::from_str(answer.get()).map_err(|error| unreadable(issuer, &error))
    }
}

fn given_up(row: &OutboxRow, reason: &str) -> SettledRow {
    row.settled(RowEnd::GivenUp(reason.to_owned()))
}

/// Why a task that waits for an agent of a domain ends, if the domain cannot be asked for good: trying again is of no use.
fn final_reason(error: &RpcError) -> Option<&'static str> {
    const REFUSED: [&str; 7] = [
        "target_invalid",
        "target_is_local",
        "method_not_allowed",
        "namespace",
        "method",
        "caller_type",
        "hello_refused",
    ];
    // What another domain answered about itself, or about a third one, is not about this link.
    if error.data("federated").is_some() && error.code() != codes::FEDERATION_REFUSED.code {
        return None;
    }
    let is_refused = error.code() == codes::FEDERATION_REFUSED.code;
    let is_unreachable = error.code() == codes::FEDERATION_UNREACHABLE.code;
    match error.data("reason")?.as_str()? {
        "domain_unknown" if is_unreachable => Some("domain_unknown"),
        "domain_untrusted" if is_unreachable => Some("domain_untrusted"),
        "issuer_blocked" if is_refused => Some("domain_blocked"),
        "disabled" if is_refused => Some("federation_off"),
        reason if is_refused && REFUSED.contains(&reason) => Some(UNREACHABLE),
        _ => None,
    }
}
