//! The processes of runner jobs, found by the variables that each of them has.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Context as _;

use crate::process::Pid;

/// The variable with the id of the job.
const JOB: &[u8] = b"AGENTRUN_JOB_ID=";

/// The variable with the home of the job, which is below the data folder of its server.
const HOME: &[u8] = b"HOME=";

/// Kills what is left of the runners of a server when it is dropped: runners outlive their server, and the bench may be interrupted.
pub(super) struct LeftProcesses {
    home: Vec<u8>,
}

/// The processes of these jobs. One that has ended and was not reaped has no variables.
pub(super) fn of_jobs(jobs: &HashSet<String>) -> anyhow::Result<Vec<Pid>> {
    with_variable(|variable| {
        let job = variable.strip_prefix(JOB).and_then(|job| str::from_utf8(job).ok());
        job.is_some_and(|job| jobs.contains(job))
    })
}

fn with_variable(is_wanted: impl Fn(&[u8]) -> bool) -> anyhow::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc could not be read")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // The variables of processes of other users cannot be read.
        let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(&is_wanted) {
            found.push(Pid::numbered(number));
        }
    }
    Ok(found)
}

impl LeftProcesses {
    /// Of the server with this data folder.
    pub(super) fn of_server(data: &Path) -> Self {
        Self { home: [HOME, data.as_os_str().as_bytes(), b"/"].concat() }
    }
}

impl Drop for LeftProcesses {
    fn drop(&mut self) {
        let left = with_variable(|variable| variable.starts_with(&self.home)).unwrap_or_default();
        left.into_iter().for_each(Pid::kill);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_are_found_by_their_job_and_killed_by_their_home() {
        let folder = format!("/nowhere/aund-bench-test-{}", std::process::id());
        let job = format!("rjob_{}", std::process::id());
        let mut command = Command::new("sleep");
        command.arg("60").env("AGENTRUN_JOB_ID", &job).env("HOME", format!("{folder}/runners/home"));
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let (own, other) = (HashSet::from([job.clone()]), HashSet::from([format!("{job}x")]));
        assert_eq!(of_jobs(&own).unwrap().len(), 1);
        assert!(of_jobs(&other).unwrap().is_empty());
        drop(LeftProcesses::of_server(Path::new(&format!("{folder}x"))));
        assert!(child.try_wait().unwrap().is_none());
        drop(LeftProcesses::of_server(Path::new(&folder)));
        assert!(!child.wait().unwrap().success());
        assert!(of_jobs(&own).unwrap().is_empty());
    }
}
