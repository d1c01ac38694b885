//! A runner from its registration to its end.

use super::attachments::AttachmentFetcher;
use super::driver::WorkDriver;
use super::heart::LeaseHeart;
use super::poller::CommandPoller;
use super::state::{WorkEnd, WorkRules, WorkState};
use crate::back_end::BackEnd;
use crate::log::{EventPayloads, RunLogWriter, RunnerOutbox};
use crate::manager::{
    CallRetry, ErrorVerdict, ManagerApi, ManagerError, ManagerUrl, RunnerLease, RunnerToken, WorkOver,
    WorkSignal,
};
use crate::secrets::{Redactor, RunnerSecrets};
use proto_schemas::requests::runner::{Claim, ClaimedRun, Register, RunnerPlacement};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// News that wait for the driver. Each of those who bring them has one at a time under way.
const SIGNALS: usize = 8;
/// The shortest wait before a claim is made again.
const CLAIM_AGAIN: Duration = Duration::from_millis(100);

/// What a runner is told when it is started.
#[derive(Clone, Debug)]
pub struct RunnerSettings {
    pub manager: ManagerUrl,
    /// The certificate that the manager must prove itself with; without one it is an authority of the public web.
    pub root: Option<PathBuf>,
    /// The address to connect to in place of the host of `manager`. The name of the manager stays that of its URL.
    pub dial: Option<SocketAddr>,
    pub token: RunnerToken,
    pub run: String,
    pub attempt: String,
    /// The command that the runner was started for.
    pub command: Option<String>,
    pub profile: String,
    pub lease: Duration,
    /// How long it stays without work.
    pub idle: Duration,
}

/// How a runner ends well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerOutcome {
    /// There was nothing to do, and the lease was given back.
    Released,
    RunEnded,
    /// It was told to end.
    Stopped,
    /// Another runner has the lease. This one has ended without a word.
    LeaseLost,
}

/// Why a runner cannot work.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error(transparent)]
    Connection(#[from] client::Error),
    #[error("the manager refuses this runner: {0}")]
    Denied(String),
    #[error("the secrets cannot be searched for: {0}")]
    Secrets(String),
}

/// Works on a run until there is nothing to do, the run ends, or somebody else has it. The back end is made when the run is known.
pub async fn work<B: BackEnd>(
    settings: RunnerSettings,
    secrets: &RunnerSecrets,
    make_back_end: impl FnOnce(&ClaimedRun) -> B,
    stop: CancellationToken,
) -> Result<RunnerOutcome, RunnerError> {
    let redactor = Redactor::new(secrets, [settings.token.value()]);
    let redactor = redactor.map_err(|error| RunnerError::Secrets(error.to_string()))?;
    let (root, token) = (settings.root.as_deref(), settings.token.clone());
    let mut api = ManagerApi::new(&settings.manager, root, settings.dial, token)?;
    let claimed = stop.run_until_cancelled(claimed_run(&settings, &mut api)).await;
    let (lease, claimed) = match claimed {
        None => return Ok(RunnerOutcome::Stopped),
        Some(Ok(claimed)) => claimed,
        Some(Err(error)) if error.verdict() == ErrorVerdict::Ended => return Ok(RunnerOutcome::RunEnded),
        Some(Err(error)) => return Err(RunnerError::Denied(error.to_string())),
    };
    let back_end = make_back_end(&claimed);
    let policy = &claimed.run.execution_policy;
    let rules = WorkRules {
        epoch: lease.epoch,
        timeout: Duration::from_millis(policy.timeout_ms.unsigned_abs()),
        idle: settings.idle,
        started_for: settings.command,
        passes_questions: back_end.passes_questions(policy.approval),
    };
    let payloads = EventPayloads::new(redactor, &lease.runner_id);
    match worked(api, lease, rules, (back_end, payloads), stop).await {
        WorkEnd::Released => Ok(RunnerOutcome::Released),
        WorkEnd::RunEnded => Ok(RunnerOutcome::RunEnded),
        WorkEnd::Stopped => Ok(RunnerOutcome::Stopped),
        WorkEnd::Over(WorkOver::LeaseLost) => Ok(RunnerOutcome::LeaseLost),
        WorkEnd::Over(WorkOver::Denied(why)) => Err(RunnerError::Denied(why)),
    }
}

/// The lease, after as long a wait as it takes.
async fn claimed_run(
    settings: &RunnerSettings,
    api: &mut ManagerApi,
) -> Result<(RunnerLease, ClaimedRun), ManagerError> {
    let retry = CallRetry::within_lease(settings.lease);
    let register = Register {
        run_id: Some(settings.run.clone()),
        attempt_id: Some(settings.attempt.clone()),
        backend_profile: settings.profile.clone(),
        placement: RunnerPlacement::HostProcess,
        ..Register::default()
    };
    let registered = retry.call(async || api.register(&register).await).await?;
    let claim = Claim {
        run_id: settings.run.clone(),
        runner_id: registered.runner_id.clone(),
        attempt_id: settings.attempt.clone(),
        lease_ms: Some(RunnerLease::length_ms(settings.lease)),
    };
    let claimed = loop {
        match retry.call(async || api.claim(&claim).await).await {
            // Somebody else has it, and may be dead.
            Err(error) if error.verdict() == ErrorVerdict::LeaseLost => {
                sleep(error.retry_after().unwrap_or_default().max(CLAIM_AGAIN)).await;
            }
            claimed => break claimed?,
        }
    };
    let lease = RunnerLease {
        run_id: settings.run.clone(),
        runner_id: registered.runner_id,
        epoch: claimed.lease.epoch,
        length: settings.lease,
    };
    Ok((lease, claimed))
}

/// The work itself: three parts speak to the manager, each on a connection of its own, and the driver to the back end, and to the manager
/// through the fetcher of its turn. All of them are one future, so that none of them outlives the others.
async fn worked<B: BackEnd>(
    api: ManagerApi,
    lease: RunnerLease,
    rules: WorkRules,
    (back_end, payloads): (B, EventPayloads),
    stop: CancellationToken,
) -> WorkEnd {
    let (signals, heard) = mpsc::channel::<WorkSignal>(SIGNALS);
    let (wants_commands, wanted) = watch::channel(true);
    let (outbox, check) = (RunnerOutbox::default(), Arc::new(Notify::new()));
    let retry = CallRetry::within_lease(lease.length);
    let heart = LeaseHeart {
        api: api.another(),
        lease: lease.clone(),
        signals: signals.clone(),
        retry,
        at_once: check.clone(),
    };
    let poller = CommandPoller {
        api: api.another(),
        lease: lease.clone(),
        signals: signals.clone(),
        retry,
        wants_commands: wanted,
    };
    let fetcher = AttachmentFetcher {
        api: api.another(),
        run_id: lease.run_id.clone(),
        retry,
        folder: back_end.image_folder(),
    };
    let writer = RunLogWriter { api, lease, outbox: outbox.clone(), signals, retry };
    let driver = WorkDriver {
        state: WorkState::new(rules, Instant::now()),
        back_end,
        fetcher,
        fetching: None,
        files: None,
        payloads,
        outbox,
        signals: heard,
        check,
        wants_commands,
        stop,
        is_stopping: false,
    };
    let with_manager = async {
        tokio::join!(heart.run(), poller.run(), writer.run());
        // Each of them has said why it ended.
        std::future::pending().await
    };
    tokio::select! {
        end = driver.run() => end,
        end = with_manager => end,
    }
}
