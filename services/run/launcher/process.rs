//! Processes of this machine: which one it is, when it ends, and what it has started.

use crate::model::run::RunnerProcessId;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::time::Duration;
use tokio::time::sleep;

/// The variable that every process of a job has got, with the id of the job.
pub(super) const JOB_VARIABLE: &str = "AGENTRUN_JOB_ID";
/// How often it is looked for a process.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often what a runner has left is looked for again: a process may start another one while it is killed.
const ROUNDS: usize = 50;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(10);

/// What the system says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessFacts {
    session: i64,
    started: i64,
    has_ended: bool,
}

/// The process with this number now, for instance one that was started a moment ago.
pub(super) fn identified(pid: u32) -> Option<RunnerProcessId> {
    let pid = i64::from(pid);
    facts_of(pid).map(|facts| RunnerProcessId { pid, started: facts.started })
}

pub(super) fn is_running(process: RunnerProcessId) -> bool {
    facts_of(process.pid).is_some_and(|facts| facts.started == process.started && !facts.has_ended)
}

/// Waits for its end. It may be one of another server that has ended, too, so nobody but the system can tell of it.
pub(super) async fn ended(process: RunnerProcessId) {
    while is_running(process) {
        sleep(LOOK_EVERY).await;
    }
}

pub(super) fn signal(process: RunnerProcessId, signal: Signal) {
    if let Some(pid) = pid_of(process.pid).filter(|_| is_running(process)) {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

/// Kills what the runner of a job has started and what is left of it: everything in its session, and what has left that but has the variable
/// of the job.
pub(super) async fn kill_what_is_left(runner: RunnerProcessId, job_id: &str) {
    let variable = format!("{JOB_VARIABLE}={job_id}");
    for _ in 0..ROUNDS {
        let variable = variable.clone();
        let killed = tokio::task::spawn_blocking(move || kill_once(runner, &variable)).await;
        match killed {
            Ok(0) | Err(_) => return,
            Ok(_) => sleep(BETWEEN_ROUNDS).await,
        }
    }
    tracing::warn!("processes of the runner job {job_id} are left: they start faster than they are killed");
}

/// How many there were.
fn kill_once(runner: RunnerProcessId, variable: &str) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i64>().ok());
    let own = i64::from(std::process::id());
    let mut killed = 0;
    for pid in pids.filter(|pid| *pid != own) {
        let Some(facts) = facts_of(pid).filter(|facts| !facts.has_ended) else { continue };
        // A session is named after its first process. What is older than the runner belongs to another one of that number.
        let of_session = facts.session == runner.pid && facts.started >= runner.started;
        if (of_session || has_variable(pid, variable))
            && let Some(pid) = pid_of(pid)
            && kill_process(pid, Signal::KILL).is_ok()
        {
            killed += 1;
        }
    }
    killed
}

fn has_variable(pid: i64, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
}

fn pid_of(pid: i64) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn facts_of(pid: i64) -> Option<ProcessFacts> {
    facts(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of a process is in brackets and may have any character; the fields after it are numbers but for the first.
fn facts(stat: &str) -> Option<ProcessFacts> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse().ok();
    Some(ProcessFacts {
        session: number(3)?,
        started: number(19)?,
        has_ended: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_name_of_a_process_does_not_matter() {
        let rest = "S 1 2 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        for name in ["(sh)", "(a) Z 9 (b)", "()"] {
            let found = facts(&format!("12 {name} {rest}"));
            assert_eq!(found, Some(ProcessFacts { session: 77, started: 4242, has_ended: false }), "{name}");
        }
        assert!(facts(&format!("12 (sh) {}", rest.replacen('S', "Z", 1))).unwrap().has_ended);
        assert_eq!(facts("12 (sh) S 1"), None);
        assert_eq!(facts(""), None);
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_noticed_and_its_number_alone_says_nothing() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = identified(child.id()).unwrap();
        assert!(is_running(process));
        let earlier = RunnerProcessId { started: process.started - 1, ..process };
        assert!(!is_running(earlier));
        ended(earlier).await;
        signal(earlier, Signal::KILL);
        assert!(is_running(process), "a signal reaches only the process that is meant");
        signal(process, Signal::KILL);
        ended(process).await;
        assert!(!is_running(process));
        child.wait().unwrap();
        assert_eq!(identified(child.id()), None);
    }

    #[tokio::test]
    async fn what_has_left_the_session_is_found_by_its_variable() {
        let start = |job: &str| {
            let mut command = Command::new("setsid");
            command.args(["--fork", "sh", "-c", "sleep 61 & wait"]).env(JOB_VARIABLE, job);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            assert!(command.status().unwrap().success());
        };
        let job = format!("rjob_test{}", std::process::id());
        let other = format!("{job}x");
        start(&job);
        start(&other);
        let runner = RunnerProcessId { pid: i64::from(i32::MAX), started: 0 };
        let found = |job: &str| {
            let variable = format!("{JOB_VARIABLE}={job}");
            let entries = fs::read_dir("/proc").unwrap();
            let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i64>().ok());
            let alive = |pid: &i64| facts_of(*pid).is_some_and(|facts| !facts.has_ended);
            pids.filter(alive).filter(|pid| has_variable(*pid, &variable)).count()
        };
        while found(&job) < 2 || found(&other) < 2 {
            sleep(Duration::from_millis(10)).await;
        }
        kill_what_is_left(runner, &job).await;
        assert_eq!(found(&job), 0);
        assert_eq!(found(&other), 2, "those of another job go on");
        kill_what_is_left(runner, &other).await;
        assert_eq!(found(&other), 0);
    }
}
