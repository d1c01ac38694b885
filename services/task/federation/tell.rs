//! The task that tells other domains of what happened to tasks that their agents take part in.
//!
//! Each domain is told by itself: one that is away or slow holds up nobody but itself. What is new is told at once, from memory. What
//! was not told, because the domain was away or this server stopped, is read from the store and told as it is by then. Several
//! processes may tell the same: the second time it has no effect.

use super::calls::unreadable;
use super::draft::{TaskRelay, relay_now};
use super::queues::{MOST_ITEMS, fitting};
use crate::TaskService;
use crate::model::error::Error;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kernel::{Caller, Forward, RpcError, await_polling, codes};
use proto_schemas::Request as _;
use proto_schemas::requests::task::{RelayEvent, RelayedEvents};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// How often it looks into the store.
const TICK: Duration = Duration::from_secs(1);
/// How many domains are told at once.
const MOST_DOMAINS: usize = 64;

/// The parameters of `task.relay_event`, as they were written.
#[derive(Serialize)]
struct RelayedItems<'a> {
    items: Vec<&'a RawValue>,
}

impl TaskService {
    /// Runs until the server stops.
    pub(crate) async fn relay(&self) {
        let (mut telling, mut busy) = (FuturesUnordered::new(), HashSet::new());
        let mut looked: Option<Instant> = None;
        loop {
            let mut due = Vec::new();
            if looked.is_none_or(|at| at.elapsed() >= TICK) {
                looked = Some(Instant::now());
                let told;
                (due, told) = await_polling(self.due_domains(), &mut telling).await;
                told.iter().for_each(|issuer| {
                    busy.remove(issuer);
                });
            }
            for issuer in self.relays.waiting().into_iter().chain(due) {
                if busy.len() < MOST_DOMAINS && busy.insert(issuer.clone()) {
                    telling.push(async move {
                        self.tell_domain(&issuer).await;
                        issuer
                    });
                }
            }
            tokio::select! {
                Some(issuer) = telling.next(), if !telling.is_empty() => { busy.remove(&issuer); }
                () = self.relays.wake.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// The domains for which something in the store is due, and that are to be tried now.
    pub(crate) async fn due_domains(&self) -> Vec<String> {
        let now = self.clock.now_ms();
        self.relays.forget(now);
        match self.store.due_domains(now).await {
            Ok(due) => due.into_iter().filter(|issuer| self.relays.may_try(issuer, now)).collect(),
            Err(error) => {
                tracing::warn!("what waits for other domains cannot be read, will try again: {error}");
                Vec::new()
            }
        }
    }

    /// Tells a domain until nothing is left, or it cannot be told.
    pub(crate) async fn tell_domain(&self, issuer: &str) {
        self.relays.begin(issuer);
        match self.try_tell_domain(issuer).await {
            Ok(()) => self.relays.succeeded(issuer),
            Err(error) => {
                self.relays.failed(issuer, self.clock.now_ms(), &self.ids);
                self.metrics.relays_failed.inc();
                tracing::debug!(peer.issuer = issuer, "{issuer} is not told of its tasks now: {error}");
            }
        }
    }

    async fn try_tell_domain(&self, issuer: &str) -> Result<(), Error> {
        loop {
            let mut relays = self.relays.take(issuer);
            if relays.is_empty() {
                relays = self.due_relays(issuer).await?;
            }
            if relays.is_empty() {
                return Ok(());
            }
            match self.tell(issuer, &relays).await {
                Ok(answer) => self.settle(issuer, &relays, &answer).await?,
                Err(error) if is_final(&error) => {
                    tracing::info!(peer.issuer = issuer, "{issuer} takes no tasks: {error}");
                    return self.give_up(issuer).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What is due for a domain, from the store, as much as fits into one call.
    async fn due_relays(&self, issuer: &str) -> Result<Vec<TaskRelay>, Error> {
        let now = self.clock.now_ms();
        let due = self.store.due_relays(issuer, now, MOST_ITEMS as i64).await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let ids: BTreeSet<_> = due.iter().map(|task| task.id.clone()).collect();
        let subscribers = self.store.subscribers(&ids, now).await?;
        let relays = due.iter().map(|task| relay_now(task, issuer, &subscribers));
        let mut relays = relays.collect::<Result<Vec<_>, _>>()?;
        relays.truncate(fitting(relays.iter()));
        Ok(relays)
    }

    async fn tell(&self, issuer: &str, relays: &[TaskRelay]) -> Result<RelayedEvents, RpcError> {
        let params = RelayedItems { items: relays.iter().map(|relay| &*relay.text).collect() };
        let forward = Forward::of_service(issuer, RelayEvent::METHOD, &params)?;
        let answer = self.mesh.forward("task", &Caller::service("task"), forward).await?;
        self.metrics.relays_sent.inc_by(relays.len() as u64);
        serde_json::from_str(answer.get()).map_err(|error| unreadable(issuer, &error))
    }
}

/// Whether the domain, or this one, refuses to have tasks passed on at all: trying again is of no use.
fn is_final(error: &RpcError) -> bool {
    const FINAL: [&str; 8] = [
        "disabled",
        "issuer_blocked",
        "target_invalid",
        "target_is_local",
        "method_not_allowed",
        "namespace",
        "method",
        "caller_type",
    ];
    let reason = error.data("reason").and_then(|reason| reason.as_str());
    error.code() == codes::FEDERATION_REFUSED.code && reason.is_some_and(|reason| FINAL.contains(&reason))
}
