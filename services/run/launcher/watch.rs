//! What becomes of the runners of this server: their ends, those that a server before has started, and those that nobody needs any more.

use super::{KnownRunner, process};
use crate::RunService;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use crate::model::run::JobRow;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
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
/// Where the runner writes the credential for Codex, below its storage.
const CODEX: &str = "codex";
const CREDENTIALS: [&str; 2] = ["auth.json", "config.toml"];
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
        // Before the next runner of the session may start, which has such files, too.
        let is_shared = self
            .launcher
            .running
            .lock()
            .iter()
            .any(|(other, one)| other != job_id && one.storage == known.storage);
        if !is_shared {
            remove_credentials(known.storage.clone()).await;
        }
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
    pub(crate) async fn adopt_runners(self: &Arc<Self>) -> anyhow::Result<()> {
        if self.launcher.lock.is_none() {
            return Ok(());
        }
        for job in self.jobs_to_adopt().await? {
            let Some(process) = job.process else {
                let service = self.clone();
                self.tracker.spawn(async move {
                    let message = "the server ended before the runner was started".to_owned();
                    service.process_over(&job.run_id, &job.id, true, Some(message)).await;
                    service.remove_homes(job.log_ref).await;
                });
                continue;
            };
            let Some(run) = self.store.run(&job.run_id).await? else {
                self.remove_homes(job.log_ref).await;
                continue;
            };
            let slot = self.launcher.slots.clone().try_acquire_owned().ok();
            let (run_id, log_ref, storage) = (job.run_id, job.log_ref, self.storage_path(&run)?);
            let known = KnownRunner { process, log_ref, storage, run_id, is_stopping: false };
            self.watch_runner(job.id, known, None, slot);
        }
        Ok(())
    }

    /// The jobs that have not ended, and those whose folders the server before could not remove any more: it may not have seen their
    /// processes end.
    async fn jobs_to_adopt(&self) -> anyhow::Result<Vec<JobRow>> {
        let (owner, folders) = (&self.launcher.owner, self.launcher.folders.clone());
        let mut left = tokio::task::spawn_blocking(move || folders.jobs_with_homes()).await??;
        let mut jobs = self.store.jobs_of_owner(owner).await?;
        for job in &jobs {
            left.remove(&job.log_ref);
        }
        if !left.is_empty() {
            jobs.extend(self.store.ended_jobs_of_owner(owner, &left).await?);
        }
        Ok(jobs)
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

/// What a Codex whose runner was killed has left. Others do not know these files.
async fn remove_credentials(storage: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || {
        for file in CREDENTIALS {
            match remove_credential(&storage, file) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                removed => removed?,
            }
        }
        rustix::io::Result::Ok(())
    });
    if let Ok(Err(error)) = removed.await {
        tracing::warn!("the credential files of a runner could not be removed: {error}");
    }
}

/// The back end may have put a link in the place of its folder: none is followed.
fn remove_credential(storage: &Path, file: &str) -> rustix::io::Result<()> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let storage = openat(CWD, storage, folder, Mode::empty())?;
    unlinkat(openat(storage, CODEX, folder, Mode::empty())?, file, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[tokio::test]
    async fn credentials_are_removed_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (storage, other) = (folder.path().join("storage"), folder.path().join("other"));
        remove_credentials(storage.clone()).await;
        for folder in [&storage.join("codex"), &other] {
            fs::create_dir_all(folder).unwrap();
            for file in ["auth.json", "config.toml", "history"] {
                fs::write(folder.join(file), "x").unwrap();
            }
        }
        remove_credentials(storage.clone()).await;
        assert_eq!(fs::read_dir(storage.join("codex")).unwrap().count(), 1);
        fs::remove_dir_all(storage.join("codex")).unwrap();
        symlink(&other, storage.join("codex")).unwrap();
        remove_credentials(storage).await;
        assert_eq!(fs::read_dir(other).unwrap().count(), 3);
    }
}
