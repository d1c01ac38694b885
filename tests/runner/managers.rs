//! Two processes of the manager: each looks after the runners that it has started, and both hear what all of them say.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::local::{LocalRun, WAITS, go_on, nothing_is_left_in, scripted, server_of_two};
use super::process::{payloads, said_in};
use crate::runs::client::{TestManager, assert_contiguous, types};
use crate::runs::kill::answers;
use crate::support::agent::{random_hex, text};
use crate::support::{on_sqlite, split, until};

const PROCESSES: [&str; 2] = ["run1", "run2"];
/// Runs in the middle of a turn for each process.
const EACH: usize = 3;
/// As many tries as find no process that is never asked.
const MOST_TRIES: usize = 200;

fn runners_of(manager: &TestManager, process: usize) -> PathBuf {
    manager.server.beside(&format!("split/{}/runners", PROCESSES[process]))
}

/// Runs whose runners the first and the second process have started, each in the middle of its turn.
async fn runs_of_both(manager: &TestManager) -> [Vec<LocalRun>; 2] {
    let mut runs = [Vec::new(), Vec::new()];
    let back_end = manager.back_end_of("l0").await;
    for _ in 0..MOST_TRIES {
        if runs.iter().all(|some| some.len() >= EACH) {
            return runs;
        }
        // Where processes are asked in turn, as many calls for each run would have all jobs asked of the same one.
        for _ in 0..random_below(4) {
            back_end.api.get("/runs?limit=1").await;
        }
        let run = LocalRun::begin_with(manager, "x", |new| new["backendProfile"] = json!("waits")).await;
        let log_ref = text(&run.job["logRef"]);
        let started = |process: &usize| runners_of(manager, *process).join("jobs").join(&log_ref).exists();
        let process = (0..PROCESSES.len()).find(started).expect("one of them has started it");
        run.said("begun").await;
        if runs[process].len() < EACH {
            runs[process].push(run);
        } else {
            go_on(&runners_of(manager, process), &run.run);
            run.reply().await;
            run.cancel().await;
        }
    }
    panic!("both are asked");
}

fn random_below(most: u32) -> u32 {
    u32::from_str_radix(&random_hex(2), 16).expect("it is hexadecimal") % most
}

async fn assert_done_once(run: &LocalRun) {
    assert_eq!(run.reply().await, "begun and done");
    let events = run.events().await;
    assert_contiguous(&events);
    assert_eq!(said_in(&events), "begun", "each part was told once");
    assert_eq!(types(&events).iter().filter(|kind| **kind == "terminal_status").count(), 1, "{events:#?}");
    assert_eq!(payloads(&events, "runner_status"), Vec::<&Value>::new(), "nobody had to replace its runner");
}

#[tokio::test]
async fn one_of_two_managers_is_killed_and_every_turn_ends_once() {
    // Two processes do not share a SQLite file.
    if !split() || on_sqlite() {
        return;
    }
    let settings = format!("{}run.session_gc_interval_ms = 500\n", scripted("waits", WAITS));
    let manager = server_of_two(&settings);
    let runs = runs_of_both(&manager).await;
    for process in 0..PROCESSES.len() {
        let run = &runs[process];
        let held = manager.server.hold_down(PROCESSES[process]).await;
        answers(&run[0].back_end).await;
        // The other process hears how this one ends.
        go_on(&runners_of(&manager, process), &run[0].run);
        assert_done_once(&run[0]).await;
        held.let_go().await;
        answers(&run[0].back_end).await;
        go_on(&runners_of(&manager, process), &run[1].run);
        assert_done_once(&run[1]).await;
    }
    for (process, runs) in runs.iter().enumerate() {
        let folder = runners_of(&manager, process);
        go_on(&folder, &runs[2].run);
        assert_done_once(&runs[2]).await;
        for run in runs {
            // Only the process that has started it removes what is left of it.
            run.job_in("succeeded").await;
            nothing_is_left_in(&folder, &run.job).await;
            run.cancel().await;
            let storage = folder.join("storage").join(&run.run);
            until("its storage is removed", || async { (!storage.exists()).then_some(()) }).await;
            let read = run.back_end.read(&run.run).await;
            assert_eq!(read["status"], "cancelled", "{read}");
        }
    }
}
