//! A run with a turn, one who watches it, and the runner that the server starts for it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures_util::future::try_join;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::process::Pid;
use crate::run::http::{ApiConnection, number, request, text};
use crate::run::server::TENANT;
use crate::run::stream::{RunEventStream, WatchedEvent};

use super::load::RunnerLoad;
use super::{LEAVE_TIMEOUT, LOOK_EVERY, TURN_TIMEOUT};

/// A run, the connection of its client, and its event stream.
pub(super) struct LaunchedRun {
    api: ApiConnection,
    stream: RunEventStream,
    run: String,
    /// The newest command.
    command: String,
    /// The seq of the last event that was read.
    seen: u64,
    runner: Option<Pid>,
}

/// When a turn was heard of first, and when it had ended.
#[derive(Clone, Copy)]
pub(super) struct TurnTimes {
    pub(super) first: Instant,
    pub(super) end: Instant,
}

impl LaunchedRun {
    /// A run with one turn that nobody works on.
    pub(super) async fn new(load: &RunnerLoad, profile: &str) -> anyhow::Result<Self> {
        let mut api = load.connect().await?;
        let new = json!({
            "tenantId": TENANT, "projectId": "acme/site", "workspaceRef": {}, "providerId": "local",
            "backendProfile": profile, "traceSink": null,
        });
        let run = text(&api.call("POST", "/runs", &load.token, &new).await?, "runId")?;
        load.created(&run);
        let stream = RunEventStream::open(load.endpoint(), &load.token, &run, 0).await?;
        let mut created = Self { api, stream, run, command: String::new(), seen: 0, runner: None };
        created.submit(load).await?;
        Ok(created)
    }

    /// Submits another turn. Since when it counts.
    pub(super) async fn submit(&mut self, load: &RunnerLoad) -> anyhow::Result<Instant> {
        let turn = json!({ "type": "turn", "payload": { "prompt": "hello" } });
        let path = format!("/runs/{}/commands", self.run);
        let request = request("POST", &path, &load.token, &turn.to_string());
        let since = Instant::now();
        let command = self.api.ask(&request).await?.data().context("a turn was refused")?;
        self.command = text(&command, "commandId")?;
        Ok(since)
    }

    /// Has a runner started that stays so long without work, and waits for the end of its turn. Since when that counts, and when it was.
    pub(super) async fn start_runner(
        &mut self,
        load: &RunnerLoad,
        idle_timeout_ms: u64,
    ) -> anyhow::Result<(Instant, TurnTimes)> {
        let new = json!({ "commandId": self.command, "launcher": "local", "idleTimeoutMs": idle_timeout_ms });
        let path = format!("/runs/{}/runner-jobs", self.run);
        let request = request("POST", &path, &load.token, &new.to_string());
        let Self { api, stream, command, seen, .. } = self;
        let since = Instant::now();
        let both = try_join(started(api, &request, load), turn_ended(stream, command, seen));
        let both = timeout(TURN_TIMEOUT, both).await;
        let (job, times) =
            both.with_context(|| format!("a turn did not end within {TURN_TIMEOUT:?} of its start"))??;
        self.runner = Some(Pid::numbered(u32::try_from(number(&job, "pid")?)?));
        Ok((since, times))
    }

    /// Waits for the end of the newest turn.
    pub(super) async fn ended(&mut self) -> anyhow::Result<TurnTimes> {
        let ended = turn_ended(&mut self.stream, &self.command, &mut self.seen);
        timeout(TURN_TIMEOUT, ended)
            .await
            .with_context(|| format!("a turn did not end within {TURN_TIMEOUT:?}"))?
    }

    /// The next events, those that have come together, and whether the newest turn ends with one of them.
    pub(super) async fn next_events(&mut self) -> anyhow::Result<(Vec<WatchedEvent>, bool)> {
        let events = self.stream.next_events().await?;
        let mut is_end = false;
        for event in &events {
            self.seen = event.seq;
            is_end |= event.ends(&self.command)?;
        }
        Ok((events, is_end))
    }

    /// Opens the event stream again: the server ends each of them after ten minutes.
    pub(super) async fn watch_again(&mut self, load: &RunnerLoad) -> anyhow::Result<()> {
        self.stream = RunEventStream::open(load.endpoint(), &load.token, &self.run, self.seen).await?;
        Ok(())
    }

    pub(super) fn runner(&self) -> anyhow::Result<Pid> {
        self.runner.context("the run has no runner")
    }

    /// Cancels the run, and waits until the server has seen the end of its runner.
    pub(super) async fn leave(&mut self, load: &RunnerLoad) -> anyhow::Result<()> {
        load.cancel(&mut self.api, &self.run).await?;
        let (runner, until) = (self.runner()?, Instant::now() + LEAVE_TIMEOUT);
        while runner.is_there() {
            if Instant::now() >= until {
                bail!("a runner has not ended within {LEAVE_TIMEOUT:?} of the end of its run");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

impl TurnTimes {
    pub(super) fn first_after(&self, since: Instant) -> Duration {
        self.first.saturating_duration_since(since)
    }

    pub(super) fn end_after(&self, since: Instant) -> Duration {
        self.end.saturating_duration_since(since)
    }
}

/// The runner job, once its process has been started.
async fn started(api: &mut ApiConnection, request: &[u8], load: &RunnerLoad) -> anyhow::Result<Value> {
    let job = api.ask(request).await?.data().context("a runner job was refused")?;
    ensure!(job["phase"] != "failed", "a runner could not be started: {job}");
    load.launched(&job)?;
    Ok(job)
}

/// Reads until a command has ended.
async fn turn_ended(stream: &mut RunEventStream, command: &str, seen: &mut u64) -> anyhow::Result<TurnTimes> {
    let mut first = None;
    loop {
        let events = stream.next_events().await?;
        let now = Instant::now();
        for event in events {
            *seen = event.seq;
            let first = *first.get_or_insert(now);
            if event.ends(command)? {
                return Ok(TurnTimes { first, end: now });
            }
        }
    }
}
