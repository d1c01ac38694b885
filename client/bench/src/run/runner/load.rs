//! A server that starts runners, and what it has started for the bench.

use std::collections::HashSet;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::agent::{BenchEndpoint, Transport};
use crate::process::{BenchFolder, BenchServer, Build, CONFIG, Pid};
use crate::report::{Goal, ReportedFigure};
use crate::run::http::{ApiConnection, text};
use crate::run::server::tenant_token;

use super::processes::{LeftProcesses, of_jobs};
use super::{LEAVE_TIMEOUT, LOOK_EVERY, once};

/// The first belongs to the limits at the end of `CONFIG`. The bench has at most 201 runners at once.
const SETTINGS: &str = "streams_per_caller = 100000\n\n[run]\nlocal_runners = 256\n\n[run.tenants.bench]\n";

/// A server, the token of its tenant, and the runs that were created on it.
pub(super) struct RunnerLoad {
    // These are dropped in this order: runners outlive their server, and write into its folder.
    pub(super) server: BenchServer,
    _left: LeftProcesses,
    _folder: BenchFolder,
    pub(super) token: String,
    started: Mutex<StartedRuns>,
}

#[derive(Default)]
struct StartedRuns {
    /// Those that were not cancelled.
    runs: HashSet<String>,
    jobs: HashSet<String>,
    isolation: String,
}

impl RunnerLoad {
    /// With these settings besides its own, which are whole tables.
    pub(super) async fn start(name: &str, settings: &str) -> anyhow::Result<Self> {
        let folder = BenchFolder::new(name)?;
        let left = LeftProcesses::of_server(&folder.file("data"));
        let settings = format!("{CONFIG}{SETTINGS}{settings}");
        let server = BenchServer::aund_with(&Build::this()?, &folder, None, &settings).await?;
        let token = tenant_token(&folder).await?;
        Ok(Self { server, _left: left, _folder: folder, token, started: Mutex::default() })
    }

    pub(super) fn endpoint(&self) -> &BenchEndpoint {
        self.server.endpoint(Transport::Plain)
    }

    pub(super) async fn connect(&self) -> anyhow::Result<ApiConnection> {
        ApiConnection::open(self.endpoint()).await
    }

    /// Remembers a run, which has to be cancelled at the end.
    pub(super) fn created(&self, run: &str) {
        self.started.lock().runs.insert(run.to_owned());
    }

    /// Remembers a runner job, of which nothing may be left at the end.
    pub(super) fn launched(&self, job: &Value) -> anyhow::Result<()> {
        let (id, isolation) = (text(job, "runnerJobId")?, text(job, "isolation")?);
        let mut started = self.started.lock();
        started.jobs.insert(id);
        started.isolation = isolation;
        Ok(())
    }

    /// A title with how the back ends were isolated, which decides how many processes a runner has.
    pub(super) fn titled(&self, title: &str) -> String {
        format!("{title}; isolation {}", self.started.lock().isolation)
    }

    /// All processes of all runners.
    pub(super) fn processes(&self) -> anyhow::Result<Vec<Pid>> {
        of_jobs(&self.started.lock().jobs)
    }

    pub(super) async fn cancel(&self, api: &mut ApiConnection, run: &str) -> anyhow::Result<()> {
        api.call("POST", &format!("/runs/{run}/cancel"), &self.token, &json!({})).await?;
        self.started.lock().runs.remove(run);
        Ok(())
    }

    /// Cancels the runs that are open, waits for the end of all runners, and counts the processes that are left of them.
    pub(super) async fn end(&self) -> anyhow::Result<ReportedFigure> {
        let runs = self.started.lock().runs.clone();
        let mut api = self.connect().await?;
        for run in &runs {
            self.cancel(&mut api, run).await?;
        }
        let until = Instant::now() + LEAVE_TIMEOUT;
        let mut left = self.processes()?.len();
        while left > 0 && Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            left = self.processes()?.len();
        }
        Ok(once("processes left", left as f64).goal(Some(Goal::AtMost(0.0))))
    }
}
