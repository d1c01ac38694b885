//! What a run waits for, as it is seen at this moment. It is computed for every answer and never stored.

use kernel::iso_ms;
use proto_schemas::requests::run::{CommandState, Liveness, LivenessLease, LivenessPhase, RecoveryAction};

/// After how long without an event a back end whose tool has ended counts as idle.
const IDLE_AFTER_TOOL_MS: i64 = 60_000;

/// What is known of a run and of the command that is asked about.
#[derive(Clone, Debug)]
pub(crate) struct LivenessFacts<'a> {
    pub run_id: &'a str,
    pub run_ended: bool,
    /// The id of the command and where it stands.
    pub command: Option<(&'a str, CommandState)>,
    /// `None`: no runner has had one, or it was released.
    pub lease: Option<LeaseFacts<'a>>,
    pub heartbeat_at: Option<i64>,
    pub last_seq: i64,
    pub seen: &'a SeenActivity,
}

/// A lease that was not released. After a start of the server the caller moves `expires_at` on, so that nobody who was silent because
/// nobody listened counts as dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseFacts<'a> {
    pub runner_id: &'a str,
    pub expires_at: i64,
}

/// What the events say about the command: `ResultFold` fills it in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeenActivity {
    /// Of every event of the run.
    pub last_event_at: Option<i64>,
    /// Of the events of the command.
    pub last_command_event_at: Option<i64>,
    /// Whether a tool was called that has not ended.
    pub open_tool: bool,
    /// Whether the last thing that the back end did was to end a tool.
    pub after_tool: bool,
    /// Whether the last status of the back end says that its transport is closed.
    pub transport_closed: bool,
    /// The oldest question without an answer.
    pub open_approval: Option<String>,
}

pub(crate) fn liveness(facts: &LivenessFacts<'_>, now: i64) -> Liveness {
    let phase = phase(facts, now);
    let age = |at: i64| now.saturating_sub(at).max(0);
    Liveness {
        phase,
        active: phase != LivenessPhase::Terminal,
        last_seq: facts.last_seq,
        last_event_at: facts.seen.last_event_at.map(iso_ms),
        last_event_age_ms: facts.seen.last_event_at.map(age),
        last_command_activity: facts.seen.last_command_event_at.map(iso_ms),
        lease: facts.lease.map(|lease| LivenessLease {
            runner_id: lease.runner_id.to_owned(),
            expires_at: iso_ms(lease.expires_at),
            expired: lease.expires_at <= now,
        }),
        heartbeat_age_ms: facts.heartbeat_at.map(age),
        recovery: recovery(facts, phase, now),
    }
}

/// The first of the protocol's conditions that holds.
fn phase(facts: &LivenessFacts<'_>, now: i64) -> LivenessPhase {
    let state = facts.command.map(|(_, state)| state);
    let seen = facts.seen;
    let Some(lease) = facts.lease else {
        let ended = facts.run_ended || state.is_some_and(is_terminal);
        return if ended { LivenessPhase::Terminal } else { LivenessPhase::WaitingRunner };
    };
    if facts.run_ended || state.is_some_and(is_terminal) {
        LivenessPhase::Terminal
    } else if state == Some(CommandState::Pending) {
        LivenessPhase::WaitingRunner
    } else if lease.expires_at <= now {
        LivenessPhase::RunnerHeartbeatStale
    } else if seen.transport_closed {
        LivenessPhase::TransportDisconnected
    } else if seen.open_approval.is_some() {
        LivenessPhase::WaitingApproval
    } else if seen.open_tool {
        LivenessPhase::WaitingTool
    } else if seen.after_tool
        && seen.last_event_at.is_some_and(|at| now.saturating_sub(at) > IDLE_AFTER_TOOL_MS)
    {
        LivenessPhase::IdleAfterTool
    } else {
        LivenessPhase::WaitingModel
    }
}

pub(crate) fn is_terminal(state: CommandState) -> bool {
    match state {
        CommandState::Pending | CommandState::Acknowledged | CommandState::Running => false,
        CommandState::Completed | CommandState::Failed | CommandState::Blocked | CommandState::Cancelled => {
            true
        }
    }
}

/// The requests that may help, the best one first.
fn recovery(facts: &LivenessFacts<'_>, phase: LivenessPhase, now: i64) -> Vec<RecoveryAction> {
    let run = format!("/api/v1/runs/{}", facts.run_id);
    let action = |action: &str, method: &str, path: String| RecoveryAction {
        action: action.to_owned(),
        method: method.to_owned(),
        path,
    };
    let submit = |name: &str| action(name, "POST", format!("{run}/commands"));
    let launch = |name: &str| action(name, "POST", format!("{run}/runner-jobs"));
    let wait = || action("wait", "GET", format!("{run}/events?afterSeq={}", facts.last_seq));
    let cancel = || match facts.command {
        Some((command, _)) => action("cancel", "POST", format!("/api/v1/commands/{command}/cancel")),
        None => action("cancel", "POST", format!("{run}/cancel")),
    };
    let live = facts.lease.is_some_and(|lease| lease.expires_at > now);
    match phase {
        LivenessPhase::Terminal => match facts.command {
            Some((command, _)) => {
                vec![action("read-result", "GET", format!("{run}/commands/{command}/result"))]
            }
            None => vec![action("read-result", "GET", format!("{run}/result"))],
        },
        // A runner is started for a command. While one has the lease, it finds the command by itself, and no other one is started.
        LivenessPhase::WaitingRunner if facts.command.is_none() => vec![submit("submit-command")],
        LivenessPhase::WaitingRunner if live => vec![wait()],
        LivenessPhase::WaitingRunner => vec![launch("launch-runner")],
        LivenessPhase::RunnerHeartbeatStale if facts.command.is_none() => vec![submit("submit-command")],
        LivenessPhase::RunnerHeartbeatStale => vec![launch("replace-runner")],
        LivenessPhase::TransportDisconnected => vec![wait(), launch("replace-runner")],
        LivenessPhase::WaitingApproval => facts
            .seen
            .open_approval
            .iter()
            .map(|id| action("answer-approval", "POST", format!("{run}/approvals/{}", path_segment(id))))
            .collect(),
        LivenessPhase::WaitingTool => vec![wait(), cancel()],
        LivenessPhase::IdleAfterTool => vec![submit("steer"), cancel()],
        LivenessPhase::WaitingModel => vec![wait()],
    }
}

/// The back end chooses the ids of its questions, so they may have any character.
fn path_segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                segment.push(char::from(byte))
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;
    use CommandState::{Acknowledged, Blocked, Cancelled, Completed, Failed, Pending, Running};
    use LivenessPhase as Phase;
    use proptest::prelude::*;
    use testing::cases;

    const NOW: i64 = 1_794_701_761_000;
    const LIVE: Option<i64> = Some(NOW + 1);
    const EXPIRED: Option<i64> = Some(NOW);

    /// What the events say, the state of the command, the end of the lease; the phase, and what may help.
    type PhaseRow<'a> = (&'a SeenActivity, Option<CommandState>, Option<i64>, Phase, &'a [&'a str]);

    fn facts<'a>(
        seen: &'a SeenActivity,
        state: Option<CommandState>,
        lease: Option<i64>,
    ) -> LivenessFacts<'a> {
        LivenessFacts {
            run_id: "run_1",
            run_ended: false,
            command: state.map(|state| ("cmd_1", state)),
            lease: lease.map(|expires_at| LeaseFacts { runner_id: "runner_1", expires_at }),
            heartbeat_at: None,
            last_seq: 7,
            seen,
        }
    }

    fn actions(liveness: &Liveness) -> Vec<String> {
        let shown = |one: &RecoveryAction| format!("{}: {} {}", one.action, one.method, one.path);
        liveness.recovery.iter().map(shown).collect()
    }

    #[test]
    fn the_first_condition_that_holds_is_the_phase() {
        let all = SeenActivity {
            last_event_at: Some(NOW - IDLE_AFTER_TOOL_MS - 1),
            last_command_event_at: None,
            open_tool: true,
            after_tool: true,
            transport_closed: true,
            open_approval: Some("a/1".to_owned()),
        };
        let no_transport = SeenActivity { transport_closed: false, ..all.clone() };
        let no_approval = SeenActivity { open_approval: None, ..no_transport.clone() };
        let no_tool = SeenActivity { open_tool: false, ..no_approval.clone() };
        let just_now = SeenActivity { last_event_at: Some(NOW - IDLE_AFTER_TOOL_MS), ..no_tool.clone() };
        let other = SeenActivity { after_tool: false, ..no_tool.clone() };
        let wait = "wait: GET /api/v1/runs/run_1/events?afterSeq=7";
        let cancel = "cancel: POST /api/v1/commands/cmd_1/cancel";
        let launch = "launch-runner: POST /api/v1/runs/run_1/runner-jobs";
        let replace = "replace-runner: POST /api/v1/runs/run_1/runner-jobs";
        let submit = "submit-command: POST /api/v1/runs/run_1/commands";
        let result = "read-result: GET /api/v1/runs/run_1/commands/cmd_1/result";
        let table: [PhaseRow<'_>; 18] = [
            (&all, Some(Completed), LIVE, Phase::Terminal, &[result]),
            (&all, Some(Failed), EXPIRED, Phase::Terminal, &[result]),
            (&all, Some(Blocked), None, Phase::Terminal, &[result]),
            (&all, Some(Cancelled), LIVE, Phase::Terminal, &[result]),
            (&all, Some(Pending), None, Phase::WaitingRunner, &[launch]),
            (&all, Some(Pending), EXPIRED, Phase::WaitingRunner, &[launch]),
            (&all, Some(Pending), LIVE, Phase::WaitingRunner, &[wait]),
            (&all, Some(Running), None, Phase::WaitingRunner, &[launch]),
            (&all, None, None, Phase::WaitingRunner, &[submit]),
            (&all, Some(Running), EXPIRED, Phase::RunnerHeartbeatStale, &[replace]),
            (&all, None, EXPIRED, Phase::RunnerHeartbeatStale, &[submit]),
            (&all, Some(Acknowledged), LIVE, Phase::TransportDisconnected, &[wait, replace]),
            (
                &no_transport,
                Some(Running),
                LIVE,
                Phase::WaitingApproval,
                &["answer-approval: POST /api/v1/runs/run_1/approvals/a%2F1"],
            ),
            (&no_approval, Some(Running), LIVE, Phase::WaitingTool, &[wait, cancel]),
            (
                &no_tool,
                Some(Running),
                LIVE,
                Phase::IdleAfterTool,
                &["steer: POST /api/v1/runs/run_1/commands", cancel],
            ),
            (&just_now, Some(Running), LIVE, Phase::WaitingModel, &[wait]),
            (&other, Some(Running), LIVE, Phase::WaitingModel, &[wait]),
            (&SeenActivity::default(), None, LIVE, Phase::WaitingModel, &[wait]),
        ];
        for (seen, state, lease, phase, recovery) in table {
            let found = liveness(&facts(seen, state, lease), NOW);
            assert_eq!(found.phase, phase, "{state:?} {lease:?}");
            assert_eq!(actions(&found), recovery, "{state:?} {lease:?}");
            assert_eq!(found.active, phase != Phase::Terminal);
        }
    }

    #[test]
    fn a_run_that_has_ended_is_terminal() {
        let seen = SeenActivity::default();
        for lease in [None, LIVE, EXPIRED] {
            let open = LivenessFacts { run_ended: true, ..facts(&seen, Some(Pending), lease) };
            assert_eq!(liveness(&open, NOW).phase, Phase::Terminal);
        }
        let without = LivenessFacts { run_ended: true, ..facts(&seen, None, None) };
        assert_eq!(actions(&liveness(&without, NOW)), ["read-result: GET /api/v1/runs/run_1/result"]);
    }

    #[test]
    fn times_and_ages_are_shown() {
        let seen = SeenActivity {
            last_event_at: Some(NOW - 1500),
            last_command_event_at: Some(NOW - 2000),
            ..SeenActivity::default()
        };
        let facts = LivenessFacts { heartbeat_at: Some(NOW + 5), ..facts(&seen, Some(Running), EXPIRED) };
        let found = liveness(&facts, NOW);
        assert_eq!(found.last_event_at.as_deref(), Some(&*iso_ms(NOW - 1500)));
        assert_eq!(found.last_command_activity.as_deref(), Some(&*iso_ms(NOW - 2000)));
        assert_eq!(
            (found.last_event_age_ms, found.heartbeat_age_ms, found.last_seq),
            (Some(1500), Some(0), 7)
        );
        let lease = found.lease.unwrap();
        assert_eq!((&*lease.runner_id, lease.expired), ("runner_1", true));
        assert_eq!(lease.expires_at, iso_ms(NOW));
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn an_id_is_one_segment_of_a_path(id in "\\PC{0,20}") {
            let segment = path_segment(&id);
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~%".contains(&b);
            prop_assert!(segment.bytes().all(plain));
        }
    }
}
