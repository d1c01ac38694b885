//! What becomes of the runners of this server: their ends, those that a server before has started, and those that nobody needs any more.

use super::{KnownRunner, process};
use crate::RunService;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::process::Child;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

/// How often it is looked for runners whose jobs have ended.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a runner may go on after the end of its job: it hears of that with its next call.
const AFTER_JOB_MS: i64 = 30_000;
/// How long it may take to end after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(10);
/// After how long the end of a process is stored again, where that has failed.
const STORE_AGAIN: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

impl RunService {
    /// Follows a process to its end. A server that stops leaves it running.
    pub(super) fn watch_runner(
        self: &Arc<Self>,
        job_id: String,
        known: KnownRunner,
        child: Option<Child>,
        slot: Option<OwnedSemaphorePermit>,
    ) {
        self.launcher.running.lock().insert(job_id.clone(), known.clone());
        let service = self.clone();
        self.tracker.spawn(async move {
            let stop = service.stop.clone();
            if stop.run_until_cancelled(process::ended(known.process)).await.is_some() {
                service.runner_ended(&job_id, known, child).await;
                service.launcher.running.lock().remove(&job_id);
            }
            drop(slot);
        });
    }

    /// Until it is reaped, nobody else gets its number: what it has left is killed before.
    async fn runner_ended(&self, job_id: &str, known: KnownRunner, child: Option<Child>) {
        process::kill_what_is_left(known.process, job_id).await;
        let failed = match child {
            Some(mut child) => !child.wait().await.is_ok_and(|status| status.success()),
            None => false,
        };
        self.process_over(&known.run_id, job_id, failed, None).await;
        self.remove_homes(known.log_ref).await;
        let run = self.store.run(&known.run_id).await;
        if run.is_ok_and(|run| run.is_none_or(|run| run.row.ended_at.is_some())) {
            self.remove_own_storage(known.run_id).await;
        }
    }

    /// Stores that the process of a job has ended, as soon as that is possible.
    pub(super) async fn process_over(
        &self,
        run_id: &str,
        job_id: &str,
        failed: bool,
        message: Option<String>,
    ) {
        loop {
            let (job_id, message) = (job_id.to_owned(), message.clone());
            let over = RunOperation::ProcessEnded { job_id, failed, message };
            match self.submit(run_id, CallAccess::System, over).await {
                Ok(_) | Err(Error::NotFound(_)) => return,
                Err(error) => tracing::warn!("the end of a runner could not be stored: {error}"),
            }
            if self.stop.run_until_cancelled(sleep(STORE_AGAIN)).await.is_none() {
                return;
            }
        }
    }

    /// Takes over the processes of the server that ran here before. Those that have ended meanwhile end as if they did it now.
    pub(crate) async fn adopt_runners(self: &Arc<Self>) -> sqlx::Result<()> {
        if self.launcher.lock.is_none() {
            return Ok(());
        }
        for job in self.store.jobs_of_owner(&self.launcher.owner).await? {
            let Some(process) = job.process else {
                let service = self.clone();
                self.tracker.spawn(async move {
                    let message = "the server ended before the runner was started".to_owned();
                    service.process_over(&job.run_id, &job.id, true, Some(message)).await;
                    service.remove_homes(job.log_ref).await;
                });
                continue;
            };
            let slot = self.launcher.slots.clone().try_acquire_owned().ok();
            let (run_id, log_ref) = (job.run_id, job.log_ref);
            self.watch_runner(
                job.id,
                KnownRunner { process, log_ref, run_id, is_stopping: false },
                None,
                slot,
            );
        }
        Ok(())
    }

    /// Ends the runners whose jobs have ended and that have not noticed it.
    pub(crate) async fn stop_runners_always(self: Arc<Self>) {
        loop {
            sleep(LOOK_EVERY).await;
            if let Err(error) = self.stop_runners_without_job().await {
                tracing::warn!("runners without a job could not be looked for: {error}");
            }
        }
    }

    async fn stop_runners_without_job(self: &Arc<Self>) -> sqlx::Result<()> {
        let asked: BTreeSet<String> = {
            let running = self.launcher.running.lock();
            running.iter().filter(|(_, known)| !known.is_stopping).map(|(job, _)| job.clone()).collect()
        };
        if asked.is_empty() {
            return Ok(());
        }
        let before = self.clock.now_ms() - AFTER_JOB_MS;
        for job_id in self.store.ended_jobs(&asked, before).await? {
            let process = {
                let mut running = self.launcher.running.lock();
                let Some(known) = running.get_mut(&job_id) else { continue };
                known.is_stopping = true;
                known.process
            };
            self.tracker.spawn(async move {
                process::signal(process, Signal::TERM);
                let _ = timeout(TERM_GRACE, process::ended(process)).await;
                process::signal(process, Signal::KILL);
            });
        }
        Ok(())
    }

    /// Removes what runs and jobs have left on the disk that are over.
    pub(crate) async fn remove_over_runners(&self) -> anyhow::Result<()> {
        let (running, logs): (BTreeSet<String>, BTreeSet<String>) = {
            let running = self.launcher.running.lock();
            running.values().map(|known| (known.run_id.clone(), known.log_ref.clone())).unzip()
        };
        let folders = self.launcher.folders.clone();
        let now = Duration::from_millis(self.clock.now_ms().unsigned_abs());
        let before = UNIX_EPOCH + now.saturating_sub(DAY * self.settings.retention_days);
        let stored = tokio::task::spawn_blocking(move || {
            folders.remove_older(before, &logs)?;
            folders.stored_runs()
        });
        for run_id in stored.await?? {
            let is_over = match running.contains(&run_id) {
                true => false,
                false => self.store.run(&run_id).await?.is_none_or(|run| run.row.ended_at.is_some()),
            };
            if is_over {
                self.remove_own_storage(run_id).await;
            }
        }
        Ok(())
    }
}
