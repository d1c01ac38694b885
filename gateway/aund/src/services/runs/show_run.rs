//! `aund runs show`: everything about a run.

use super::caller::{RunCaller, RunCallerArgs};
use super::text::{failure, phase, question, state, text_of, word};
use crate::show::{Show, printable_line, time};
use clap::Args;
use proto_schemas::requests::run::{
    self, Approvals, CommandRecord, CommandType, Commands, ExecutionPolicy, Get, Liveness, LivenessPhase,
    RecoveryAction, RunApproval, RunCommandPage, RunRecord, RunnerJob, RunnerJobs,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// So many commands are shown, the newest ones.
const COMMANDS: i64 = 20;

#[derive(Args)]
pub(super) struct ShowRunCommand {
    /// The id of the run
    run: String,
    #[command(flatten)]
    caller: RunCallerArgs,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRun {
    run: RunRecord,
    liveness: Liveness,
    /// In their order.
    commands: Vec<CommandRecord>,
    /// Whether there are older ones.
    more_commands: bool,
    approvals: Vec<RunApproval>,
    runner_jobs: Vec<RunnerJob>,
}

impl ShowRunCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let caller = self.caller.caller()?;
        let shown = read(&caller, &self.run).await?;
        let show = caller.show;
        match show.json {
            true => show.line(&serde_json::to_string(&shown)?)?,
            false => lines(&show, &shown).iter().try_for_each(|line| show.line(line))?,
        }
        Ok(())
    }
}

async fn read(caller: &RunCaller, run_id: &str) -> anyhow::Result<ShownRun> {
    let run_id = run_id.to_owned();
    let run = caller.ask(&Get { run_id: run_id.clone() }).await?.run;
    let newest = Commands { run_id: run_id.clone(), before_seq: None, limit: Some(COMMANDS) };
    let RunCommandPage { mut commands, has_more } = caller.ask(&newest).await?;
    commands.reverse();
    // What the run waits for is said of the command that is next, and not of one behind it.
    let next = commands.iter().find(|command| command.terminal_status.is_none());
    let command_id = next.map(|command| command.command_id.clone());
    let result = caller.ask(&run::Result { run_id: run_id.clone(), command_id }).await?;
    let approvals = caller.ask(&Approvals { run_id: run_id.clone() }).await?.approvals;
    let runner_jobs = caller.ask(&RunnerJobs { run_id, command_id: None }).await?.runner_jobs;
    Ok(ShownRun { run, liveness: result.liveness, commands, more_commands: has_more, approvals, runner_jobs })
}

fn lines(show: &Show, shown: &ShownRun) -> Vec<String> {
    let ShownRun { run, liveness, commands, more_commands, approvals, runner_jobs } = shown;
    let mut lines = Vec::new();
    let mut field =
        |name: &str, value: String| lines.push(format!("{}{value}", show.dim(&format!("{name:10}"))));
    field("run", show.bold(&printable_line(&run.run_id)));
    let why = failure(run.failure_kind.as_deref(), run.failure_message.as_deref());
    let status = state(show, &word(run.status)).replace(' ', "");
    field("status", if why.is_empty() { status } else { format!("{status}, {why}") });
    field("tenant", printable_line(&run.tenant_id));
    field("project", show.cyan(&printable_line(&run.project_id)));
    let provider = printable_line(&run.provider_id);
    field("profile", format!("{}, provider {provider}", printable_line(&run.backend_profile)));
    field("workspace", workspace(&run.workspace_ref));
    if let Some(session) = &run.session_ref {
        field("session", printable_line(&session.session_id));
    }
    field("policy", policy(&run.execution_policy));
    field("created", time(&run.created_at));
    if let Some(at) = &run.cancel_requested_at {
        field("cancelled", format!("requested {}", time(at)));
    }
    field("changed", time(&run.updated_at));
    if let Some(lease) = &run.lease {
        let expired = liveness.lease.as_ref().is_some_and(|lease| lease.expired);
        let until = if expired { "expired" } else { "until" };
        let (runner, at) = (printable_line(&lease.runner_id), time(&lease.expires_at));
        field("lease", format!("{runner}, epoch {}, {until} {at}", lease.epoch));
    }
    let last = liveness.last_event_at.as_deref().map(|at| format!(", the last one {}", time(at)));
    let events = if liveness.last_seq == 1 { "event" } else { "events" };
    field("log", format!("{} {events}{}", liveness.last_seq, last.unwrap_or_default()));
    let now = match (liveness.phase, run.terminal_status) {
        (LivenessPhase::Terminal, None) => "its newest command has ended",
        (other, _) => phase(other),
    };
    field("now", format!("{}: {now}", word(liveness.phase)));
    for help in &liveness.recovery {
        let RecoveryAction { action, method, path } = help;
        let request = if path.is_empty() { String::new() } else { format!(": {method} {path}") };
        field("helps", printable_line(&format!("{action}{request}")));
    }
    if *more_commands {
        lines.push(show.dim("…"));
    }
    lines.extend(commands.iter().map(|command| command_line(show, command)));
    lines.extend(approvals.iter().map(|approval| question(show, approval)));
    lines.extend(runner_jobs.iter().map(|job| job_line(show, job)));
    lines
}

/// `a folder of its own`, or the configured one that it names.
fn workspace(reference: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Workspace {
        root: Option<String>,
        path: Option<String>,
    }
    match serde_json::from_str(reference.get()) {
        Ok(Workspace { root: Some(root), path }) => {
            printable_line(&format!("{root}/{}", path.unwrap_or_default())).trim_end_matches('/').to_owned()
        }
        Ok(Workspace { root: None, .. }) => "an empty folder of its own".to_owned(),
        Err(_) => printable_line(reference.get()),
    }
}

fn policy(policy: &ExecutionPolicy) -> String {
    format!(
        "{}, approval {}, network {}, {} s per command",
        word(policy.sandbox),
        word(policy.approval),
        word(policy.network),
        policy.timeout_ms / 1000
    )
}

fn command_line(show: &Show, command: &CommandRecord) -> String {
    let payload: Value = serde_json::from_str(command.payload.get()).unwrap_or_default();
    let said = if command.kind == CommandType::Interrupt {
        String::new()
    } else {
        format!(": {}", text_of(&payload, &["prompt", "message", "text"]))
    };
    let why = failure(command.failure_kind.as_deref(), command.failure_message.as_deref());
    let asked = command.cancel_requested_at.is_some() && command.terminal_status.is_none();
    let asked = if asked { "  (cancellation requested)" } else { "" };
    let id = show.dim(&printable_line(&command.command_id));
    let (state, kind) = (state(show, &word(command.state)), word(command.kind));
    let head = format!("#{} {state}  {id}  {kind}{said}{asked}", command.seq);
    if why.is_empty() { head } else { format!("{head}\n    {why}") }
}

fn job_line(show: &Show, job: &RunnerJob) -> String {
    let id = show.dim(&printable_line(&job.runner_job_id));
    let runner = job.runner_id.as_deref().map_or("not registered yet".to_owned(), printable_line);
    let (phase, launcher) = (state(show, &word(job.phase)), word(job.launcher));
    format!("job {phase}  {id}  {launcher}  {runner}  {}", time(&job.created_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::find;
    use serde::de::DeserializeOwned;

    /// A member of the result of the first example of a method.
    fn example<T: DeserializeOwned>(method: &str, pointer: &str) -> T {
        let example = &find(method).unwrap().doc()["examples"][0]["result"];
        serde_json::from_str(&example.pointer(pointer).unwrap().to_string()).unwrap()
    }

    #[test]
    fn a_run_is_shown_with_its_commands_and_what_helps() {
        let mut liveness: Liveness = example("run.result", "/liveness");
        liveness.phase = LivenessPhase::WaitingRunner;
        liveness.last_event_at = None;
        liveness.last_seq = 0;
        liveness.recovery = vec![RecoveryAction {
            action: "launch-runner".to_owned(),
            method: "POST".to_owned(),
            path: "/api/v1/runs/run_1/runner-jobs".to_owned(),
        }];
        let mut command: CommandRecord = example("run.command_create", "/command");
        command.failure_message = Some("thank you".to_owned());
        let shown = ShownRun {
            run: example("run.create", "/run"),
            liveness,
            commands: vec![command],
            more_commands: false,
            approvals: Vec::new(),
            runner_jobs: example("run.runner_jobs", "/runnerJobs"),
        };
        let expected = "run       run_0190163d868b7ce2a5f1c1b6d0b3a7e4
status    pending
tenant    demo
project   acme/site
profile   example, provider local
workspace an empty folder of its own
policy    workspace-write, approval never, network enabled, 1800 s per command
created   2026-11-14T22:16:01Z
changed   2026-11-14T22:16:01Z
log       0 events
now       waiting-runner: no runner has taken it yet
helps     launch-runner: POST /api/v1/runs/run_1/runner-jobs
#1 pending       cmd_0190163d868b7ce2a5f1c1b6d0b3a7e4  turn: hello
    thank you
job creating      rjob_0190163d868b7ce2a5f1c1b6d0b3a7e4  external  not registered yet  2026-11-14T22:16:01Z";
        assert_eq!(lines(&Show::new(false, true), &shown).join("\n"), expected);
    }

    #[test]
    fn a_workspace_is_a_name_and_not_a_path_of_the_server() {
        let workspace = |text: &str| workspace(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(workspace(r#"{"root":"site","path":"web\u001b"}"#), "site/web\\u001b");
        assert_eq!(workspace(r#"{"root":"site"}"#), "site");
        assert_eq!(workspace("{}"), "an empty folder of its own");
    }
}
