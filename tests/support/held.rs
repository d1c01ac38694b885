//! A process of a split server that is killed and kept from coming back.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{TestServer, until};

/// A process that was killed and is not started again before somebody wants it.
pub struct HeldProcess {
    held: PathBuf,
    pid_file: PathBuf,
    pid: String,
}

impl TestServer {
    /// SIGKILL to one process, such as `task1`; the others go on.
    pub async fn hold_down(&self, process: &str) -> HeldProcess {
        self.assert_own();
        let [held, pid_file] = ["hold", "pid"].map(|end| self.beside(&format!("split/{process}.{end}")));
        fs::write(&held, "").expect("a file can be written");
        let pid = fs::read_to_string(&pid_file).expect("it has a process");
        let killed = Command::new("kill").args(["-KILL", &pid]).status();
        assert!(killed.is_ok_and(|status| status.success()), "it was there");
        let ended = || async {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X'])).then_some(())
        };
        until("the process has ended", ended).await;
        HeldProcess { held, pid_file, pid }
    }
}

impl HeldProcess {
    /// Waits until it is started again, though perhaps not until it answers.
    pub async fn let_go(self) {
        fs::remove_file(&self.held).expect("it was held");
        let started = || async {
            let pid = fs::read_to_string(&self.pid_file).unwrap_or_default();
            (!pid.is_empty() && pid != self.pid).then_some(())
        };
        until("the process is started again", started).await;
    }
}
