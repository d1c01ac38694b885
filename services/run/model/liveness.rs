//! Whether something is going on in a run, as it is seen at the moment of reading. Nothing of it is stored.

use super::result::ResultFacts;
use super::run::{CommandRow, RunRow};
use kernel::iso_ms;
use proto_schemas::requests::run::{
    CommandState, Liveness, LivenessLease, LivenessPhase, RecoveryAction,
};

/// How long a run may be silent after a tool before that is worth a word.
const IDLE_AFTER_TOOL_MS: i64 = 60_000;

/// What the events of a command say about its present.
#[derive(Debug, Default)]
pub(crate) struct EventTrace {
    pub last_event_at: Option<i64>,
    pub last_scoped_at: Option<i64>,
    pub open_tools: usize,
    pub tool_ended_at: Option<i64>,
    pub transport_closed: bool,
    /// Questions without an answer in the log.
    pub approvals: Vec<String>,
}

pub(crate) fn liveness(trace: &EventTrace, facts: &ResultFacts<'_>) -> Liveness {
    let (run, now) = (facts.run, facts.now);
    let phase = phase(trace, facts);
    let lease = run.lease.runner.as_ref().filter(|_| !run.lease.released && run.ended_at.is_none());
    let activity = trace.last_scoped_at.max(facts.command.map(|command| command.updated_at));
    Liveness {
        phase,
        active: phase != LivenessPhase::Terminal,
        last_seq: run.last_seq,
        last_event_at: trace.last_event_at.map(iso_ms),
        last_event_age_ms: trace.last_event_at.map(|at| (now - at).max(0)),
        last_command_activity: activity.map(iso_ms),
        lease: lease.map(|runner| LivenessLease {
            runner_id: runner.clone(),
            expires_at: iso_ms(run.lease.until),
            expired: !run.lease.is_live(now, facts.started_at),
        }),
        heartbeat_age_ms: run.lease.heartbeat_at.map(|at| (now - at).max(0)),
        recovery: recovery(phase, run, facts.command, trace),
    }
}

/// The first that applies.
fn phase(trace: &EventTrace, facts: &ResultFacts<'_>) -> LivenessPhase {
    let (run, now) = (facts.run, facts.now);
    let ended = run.ended_at.is_some() || facts.command.is_some_and(|command| command.ended_at.is_some());
    let waits = facts.command.is_some_and(|command| command.state == CommandState::Pending);
    let live = run.lease.is_live(now, facts.started_at);
    let nobody = run.lease.runner.is_none() || run.lease.released;
    let silent = |at: i64| now - trace.last_event_at.unwrap_or(at) > IDLE_AFTER_TOOL_MS;
    if ended {
        LivenessPhase::Terminal
    } else if nobody || (waits && !live) {
        LivenessPhase::WaitingRunner
    } else if !live {
        LivenessPhase::RunnerHeartbeatStale
    } else if waits {
        LivenessPhase::WaitingRunner
    } else if trace.transport_closed {
        LivenessPhase::TransportDisconnected
    } else if !trace.approvals.is_empty() {
        LivenessPhase::WaitingApproval
    } else if trace.open_tools > 0 {
        LivenessPhase::WaitingTool
    } else if trace.tool_ended_at.is_some_and(silent) {
        LivenessPhase::IdleAfterTool
    } else {
        LivenessPhase::WaitingModel
    }
}

/// What the caller can do about it.
fn recovery(
    phase: LivenessPhase,
    run: &RunRow,
    command: Option<&CommandRow>,
    trace: &EventTrace,
) -> Vec<RecoveryAction> {
    let base = format!("/api/v1/runs/{}", run.id);
    let post = |action: &str, path: String| RecoveryAction {
        action: action.to_owned(),
        method: "POST".to_owned(),
        path,
    };
    let read = |path: String| RecoveryAction {
        action: "read-result".to_owned(),
        method: "GET".to_owned(),
        path,
    };
    let cancel = || {
        let of_command = command.map(|command| format!("/api/v1/commands/{}/cancel", command.id));
        post("cancel", of_command.unwrap_or_else(|| format!("{base}/cancel")))
    };
    let wait = || RecoveryAction {
        action: "wait".to_owned(),
        method: "GET".to_owned(),
        path: format!("{base}/events?afterSeq={}", run.last_seq),
    };
    match phase {
        LivenessPhase::Terminal => match command {
            Some(command) => vec![read(format!("{base}/commands/{}/result", command.id))],
            None => vec![read(format!("{base}/result"))],
        },
        LivenessPhase::WaitingRunner if command.is_none() => {
            vec![post("submit-command", format!("{base}/commands"))]
        }
        LivenessPhase::WaitingRunner => vec![post("start-runner", format!("{base}/runner-jobs")), cancel()],
        LivenessPhase::RunnerHeartbeatStale => {
            vec![post("start-replacement", format!("{base}/runner-jobs")), cancel()]
        }
        LivenessPhase::TransportDisconnected => {
            vec![wait(), post("start-replacement", format!("{base}/runner-jobs")), cancel()]
        }
        LivenessPhase::WaitingApproval => {
            let approvals = trace.approvals.iter().take(8);
            let approvals = approvals.map(|id| post("answer", format!("{base}/approvals/{id}")));
            approvals.chain([cancel()]).collect()
        }
        LivenessPhase::WaitingTool | LivenessPhase::WaitingModel => vec![wait(), cancel()],
        LivenessPhase::IdleAfterTool => vec![post("steer", format!("{base}/commands")), cancel()],
    }
}
