//! A service as a value: what it answers, over JSON-RPC and over HTTP, and what it does by itself.

mod agent_removal;
mod metrics;
mod session_notice;

pub use agent_removal::AgentRemoval;
pub use metrics::ServiceMetrics;
pub use session_notice::SessionNotice;

use crate::{Backoff, Methods};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a task that panicked is left alone before it is started again.
const RESTART_AFTER: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Made by [`Service::new`] and in no other way, so that nothing that it asks for is left out.
#[non_exhaustive]
pub struct Service {
    /// The namespaces whose methods it answers; usually one, of its own name.
    pub namespaces: &'static [&'static str],
    /// Its methods over JSON-RPC.
    pub methods: Methods,
    /// Its HTTP. Which paths reach it is declared in the `namespace.json` files, because a router cannot be listed.
    pub routes: axum::Router,
    /// What it does without being asked.
    pub tasks: Vec<Task>,
    /// Whether clients are told that it is here.
    pub advertised: bool,
}

impl Service {
    /// Whatever else a service is, it says what it removes when the AID of an agent ends.
    pub fn new(
        namespaces: &'static [&'static str],
        methods: impl Into<Methods>,
        removal: AgentRemoval,
    ) -> Service {
        let tasks = removal.task.into_iter().collect();
        let (methods, routes) = (methods.into(), axum::Router::new());
        Service { namespaces, methods, routes, tasks, advertised: true }
    }

    /// A service that its operator turned off: no client is told of its namespaces and their tags, and its methods only say so.
    #[must_use]
    pub fn turned_off(self) -> Service {
        Service { advertised: false, ..self }
    }

    #[must_use]
    pub fn with_routes(mut self, routes: axum::Router) -> Service {
        self.routes = routes;
        self
    }

    #[must_use]
    pub fn with_task(mut self, task: Task) -> Service {
        self.tasks.push(task);
        self
    }
}

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work in the background, begun again if it panics. It ends by itself when the server stops.
pub struct Task {
    name: &'static str,
    begin: Box<dyn FnMut() -> TaskFuture + Send>,
}

impl Task {
    pub fn new<Fut>(name: &'static str, mut begin: impl FnMut() -> Fut + Send + 'static) -> Task
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        Task { name, begin: Box::new(move || Box::pin(begin())) }
    }
}

/// The tasks of the services in this process.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<BTreeMap<(&'static str, &'static str), TaskStatus>>>);

/// How a task is right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStatus {
    pub running: bool,
    /// How often it panicked and was started again.
    pub restarts: u64,
}

impl Tasks {
    /// Runs a task of a service until it ends: that is when the server stops.
    pub fn run(&self, tracker: &TaskTracker, stop: &CancellationToken, service: &'static str, task: Task) {
        let (tasks, stop) = (self.clone(), stop.clone());
        let backoff = Backoff::new(RESTART_AFTER, LONGEST_WAIT);
        tracker.spawn(async move { tasks.supervise(&stop, service, task, backoff).await });
    }

    async fn supervise(
        &self,
        stop: &CancellationToken,
        service: &'static str,
        mut task: Task,
        mut backoff: Backoff,
    ) {
        loop {
            self.update(service, task.name, |status| status.running = true);
            // Its first call may panic as well, before there is a future.
            let running = AssertUnwindSafe(async { (task.begin)().await }).catch_unwind();
            let ended = running.await;
            self.update(service, task.name, |status| status.running = false);
            if ended.is_ok() || stop.is_cancelled() {
                return;
            }
            tracing::error!("task {service}.{} panicked and was restarted", task.name);
            if stop.run_until_cancelled(backoff.wait()).await.is_none() {
                return;
            }
            self.update(service, task.name, |status| status.restarts += 1);
        }
    }

    fn update(&self, service: &'static str, task: &'static str, change: impl FnOnce(&mut TaskStatus)) {
        change(self.0.lock().entry((service, task)).or_default());
    }

    /// Every task, by its service and its name.
    pub fn statuses(&self) -> Vec<((&'static str, &'static str), TaskStatus)> {
        self.0.lock().iter().map(|(name, status)| (*name, *status)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn soon() -> Backoff {
        Backoff::new(Duration::from_millis(1), Duration::from_millis(1))
    }

    #[tokio::test]
    async fn a_task_that_panics_is_started_again_and_one_that_ends_is_not() {
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        let starts = Arc::new(AtomicU32::new(0));
        let counted = starts.clone();
        let task = Task::new("sweep", move || {
            let start = counted.fetch_add(1, Ordering::Relaxed);
            async move { assert!(start >= 2, "on purpose") }
        });
        tasks.supervise(&stop, "test", task, soon()).await;
        assert_eq!(starts.load(Ordering::Relaxed), 3);
        assert_eq!(tasks.statuses(), [(("test", "sweep"), TaskStatus { running: false, restarts: 2 })]);
    }

    #[tokio::test]
    async fn a_task_that_panics_while_the_server_stops_is_not_started_again() {
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        let stopping = stop.clone();
        let task = Task::new("sweep", move || {
            stopping.cancel();
            async { panic!("on purpose") }
        });
        tasks.supervise(&stop, "test", task, soon()).await;
        assert_eq!(tasks.statuses(), [(("test", "sweep"), TaskStatus::default())]);
    }
}
