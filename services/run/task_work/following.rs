//! Which tasks there are to look at, and when.

use super::WorkedTasks;
use crate::RunService;
use crate::error::Error;
use crate::store::RunTaskRow;
use kernel::{Caller, RpcError};
use proto_schemas::requests::task::{Assigned, AssignedTask};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// How often it is looked for tasks when nothing is told: the bus may lose what it tells.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What changes in so short a time is looked at together.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often the lease is renewed, or asked for.
const RENEW_EVERY: Duration = Duration::from_secs(2);
const WORKER: &str = "worker";

/// The id of a task, the task if it is open, and what is known of its run.
type TaskToLookAt = (String, Option<AssignedTask>, Option<RunTaskRow>);

impl RunService {
    /// Runs until the server stops.
    pub(crate) async fn follow_tasks_always(self: Arc<Self>) {
        if self.task_work.agents.is_empty() && self.store.run_tasks().await.is_ok_and(|rows| rows.is_empty())
        {
            return pending().await;
        }
        let mut is_failing = false;
        loop {
            match self.follow_tasks().await {
                Ok(()) => is_failing = false,
                // The service of the tasks may be starting: that is told once, and not each second.
                Err(error) if !is_failing => {
                    is_failing = true;
                    let error = RpcError::from(error);
                    tracing::warn!("tasks of agents cannot be looked at, will try again: {error}");
                }
                Err(_) => {}
            }
            let _ = timeout(LOOK_EVERY, self.task_work.wake.notified()).await;
            sleep(TOGETHER).await;
        }
    }

    /// Looks at every task that may have something new.
    pub(crate) async fn follow_tasks(self: &Arc<Self>) -> Result<(), Error> {
        if !self.works_on_tasks().await? {
            return Ok(());
        }
        let changed = take(&mut self.task_work.runs.lock().changed);
        let listed = self.assigned_tasks().await?;
        // Read later than the list: a row whose task is not in it is of one that has ended, or was begun by another process meanwhile.
        let rows = self.store.run_tasks().await?;
        self.task_work.runs.lock().all = rows.iter().map(|row| row.run_id.clone()).collect();
        let mut rows: BTreeMap<String, RunTaskRow> =
            rows.into_iter().map(|row| (row.task_id.clone(), row)).collect();
        let mut wanted = Vec::new();
        let is_full = self.task_work.looks.lock().is_full(Instant::now());
        for task in listed {
            let row = rows.remove(task.task_id.as_str());
            let is_new = |row: &RunTaskRow| row.version != task.version || changed.contains(&row.run_id);
            if is_full || row.as_ref().is_none_or(is_new) {
                wanted.push((task.task_id.to_string(), Some(task), row));
            }
        }
        wanted.extend(rows.into_iter().map(|(id, row)| (id, None, Some(row))));
        self.begin_looks(wanted, is_full);
        Ok(())
    }

    fn begin_looks(self: &Arc<Self>, wanted: Vec<TaskToLookAt>, is_full: bool) {
        let (now, mut looks) = (Instant::now(), self.task_work.looks.lock());
        if is_full {
            let there: BTreeSet<&str> = wanted.iter().map(|(id, ..)| id.as_str()).collect();
            looks.retain(|task| there.contains(task));
        }
        for (id, task, row) in wanted {
            let home = task.as_ref().and_then(|task| task.home_issuer.as_deref());
            if looks.begin(&id, home, now) {
                let service = self.clone();
                self.tracker.spawn(async move {
                    let stop = service.stop.clone();
                    stop.run_until_cancelled(service.look_at_task(id, task, row)).await;
                });
            }
        }
    }

    /// A task that cannot be worked on now holds up no other; it is looked at again.
    async fn look_at_task(self: Arc<Self>, id: String, task: Option<AssignedTask>, row: Option<RunTaskRow>) {
        let mut busy = BusyLook { work: self.task_work.clone(), id: Some(id.clone()) };
        let run_id = row.as_ref().map(|row| row.run_id.clone());
        let looked = match (task, row) {
            (Some(task), None) => self.clone().begin_task(task).await,
            (Some(task), Some(row)) => self.go_on_with_task(&task.status, task.version, row).await,
            (None, Some(row)) => self.leave_task(row).await,
            (None, None) => Ok(()),
        };
        busy.id = None;
        let work = &self.task_work;
        match looked {
            Ok(()) => {
                if work.looks.lock().end(&id) {
                    work.runs.lock().changed.extend(run_id);
                    work.wake.notify_one();
                }
            }
            Err(error) => {
                let (is_new, error) = (work.looks.lock().fail(&id, Instant::now()), RpcError::from(error));
                if is_new {
                    tracing::warn!("{id} could not be worked on, will try again: {error}");
                }
            }
        }
    }

    async fn assigned_tasks(&self) -> Result<Vec<AssignedTask>, Error> {
        let mut wanted =
            Assigned { aids: self.task_work.agents.keys().cloned().collect(), after: None, limit: None };
        let mut tasks: Vec<AssignedTask> = Vec::new();
        while !wanted.aids.is_empty() {
            let page = self.mesh.ask(Caller::service("run"), &wanted).await?;
            tasks.extend(page.tasks);
            wanted.after = tasks.last().map(|task| task.task_id.clone());
            if !page.has_more {
                break;
            }
        }
        Ok(tasks)
    }

    /// Whether this process is the one that works on tasks.
    async fn works_on_tasks(&self) -> sqlx::Result<bool> {
        let (work, now) = (&self.task_work, self.clock.now_ms());
        let held = {
            let mut held = work.held.lock();
            if held.asked_at.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
                return Ok(held.lease.is_some());
            }
            held.asked_at = Some(Instant::now());
            held.lease.take()
        };
        let renewed = match held {
            Some(lease) => {
                let mut tx = self.store.db().begin().await?;
                let renewed = work.leases.renew(&mut tx, &lease, now).await?;
                self.store.db().commit(tx).await?;
                renewed.then_some(lease)
            }
            None => work.leases.take(WORKER, now).await?,
        };
        let is_held = renewed.is_some();
        work.held.lock().lease = renewed;
        Ok(is_held)
    }
}

/// A look that a stop or a panic cuts off does not keep its task from being looked at again.
struct BusyLook {
    work: Arc<WorkedTasks>,
    id: Option<String>,
}

impl Drop for BusyLook {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.work.looks.lock().fail(id, Instant::now());
        }
    }
}

impl WorkedTasks {
    /// So that another process need not wait until this one is known to be gone.
    pub async fn stop(&self) {
        self.leases.release_all().await;
    }
}
