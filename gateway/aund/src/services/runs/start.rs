//! `aund runs start`: one turn in a run of its own, from the text to the end, with everything that happens and its questions.

use super::caller::RunCallerArgs;
use super::live_run::LiveRun;
use super::result::{NotCompleted, not_completed};
use crate::show::{Show, printable_line};
use anyhow::Context as _;
use clap::Args;
use gateway::signals::Signals;
use kernel::Ids;
use proto_schemas::requests::run::{
    self, CommandCreate, CommandType, Create, RunSessionRef, RunnerJob, RunnerJobCreate,
};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::path::Path;

/// How long the runner waits for another command: nobody sends one.
const IDLE_TIMEOUT_MS: i64 = 1000;

#[derive(Args)]
pub(super) struct StartRunCommand {
    /// What to do, for the back end
    text: String,
    /// The tenant that the run belongs to
    #[arg(long, value_name = "NAME", default_value = "unidesk")]
    tenant: String,
    /// The project of the tenant
    #[arg(long, value_name = "NAME", default_value = "aund")]
    project: String,
    /// The profile of the back end
    #[arg(long, value_name = "NAME", default_value = "example")]
    profile: String,
    /// Continue the conversation of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the id of the run, and do not wait for its end
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    caller: RunCallerArgs,
}

impl StartRunCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let StartRunCommand { text, tenant, project, profile, session, detach, caller } = self;
        let caller = caller.caller()?;
        let show = caller.show;
        let mut signals = Signals::new()?;
        // One for each step, so that a call that is made again does nothing twice.
        let key = || Some(hex::encode(Ids::default().bytes::<16>()));
        let create = Create {
            tenant_id: tenant,
            project_id: project,
            workspace_ref: raw(&json!({}))?,
            provider_id: "local".to_owned(),
            backend_profile: profile,
            execution_policy: None,
            trace_sink: raw(&json!(null))?,
            session_ref: session.map(|session_id| RunSessionRef { session_id }),
            resource_bundle_ref: None,
            idempotency_key: key(),
        };
        let run_id = caller.ask(&create).await?.run.run_id;
        let turn = CommandCreate {
            run_id: run_id.clone(),
            kind: CommandType::Turn,
            payload: raw(&json!({ "text": text }))?,
            idempotency_key: key(),
        };
        let command_id = caller.ask(&turn).await?.command.command_id;
        let job = RunnerJobCreate {
            run_id: run_id.clone(),
            command_id: command_id.clone(),
            idempotency_key: key(),
            attempt_id: None,
            launcher: None,
            idle_timeout_ms: Some(IDLE_TIMEOUT_MS),
            env: None,
        };
        let job = caller.ask(&job).await?.runner_job;
        if detach && show.json {
            return Ok(show.line(&serde_json::to_string(&job)?)?);
        }
        started(&show, &job, detach, &caller.root())?;
        if detach {
            return Ok(());
        }

        let live = LiveRun::new(&caller, run_id.clone(), command_id.clone()).await?;
        let ended = tokio::select! {
            ended = live.until_end() => Some(ended?),
            () = signals.wait() => None,
        };
        if ended.is_none() {
            show.note(&format!(
                "the run goes on: aund runs watch {run_id}; to end it: aund runs cancel {run_id}"
            ));
            return Ok(());
        }
        let result = caller.ask(&run::Result { run_id, command_id: Some(command_id) }).await?;
        match result.completed {
            true => Ok(()),
            false => Err(NotCompleted(not_completed(&result)).into()),
        }
    }
}

/// Says which run it is, and how to start its runner where the server has not.
fn started(show: &Show, job: &RunnerJob, detach: bool, root: &Path) -> anyhow::Result<()> {
    let run = printable_line(&job.run_id);
    match (detach, show.json) {
        (true, false) => show.line(&run)?,
        (false, false) => show.note(&format!("{run} is started")),
        (_, true) => {}
    }
    if let (Some(token), Some(manager)) = (&job.runner_token, &job.manager) {
        let (attempt, command) = (printable_line(&job.attempt_id), printable_line(&job.command_id));
        show.note("this server starts no runners; start one for it:");
        show.note(&format!(
            "echo {} | aund runner --manager {} --root {} --run {run} --attempt {attempt} --command {command} --workspace .",
            printable_line(token),
            printable_line(manager),
            root.display()
        ));
    }
    Ok(())
}

fn raw(value: &serde_json::Value) -> anyhow::Result<Box<RawValue>> {
    to_raw_value(value).context("it is JSON")
}
