//! A program of a back end: started in a group of its own, and ended with everything that it started.

use super::reader::{JsonlReader, TextReader};
use crate::back_end::BackEndError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a program may take to end after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(10);
/// Messages that a program has not read yet. Each is as large as a command may be, half a MiB.
const MOST_UNREAD: usize = 16;

/// How the program of a back end is started.
#[derive(Clone, Debug)]
pub struct BackEndProgram {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Where it works.
    pub workspace: PathBuf,
    /// Its whole environment: nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
}

/// What a program prints.
pub(super) struct ProgramPipes {
    pub stdout: JsonlReader<ChildStdout>,
    pub stderr: TextReader<ChildStderr>,
}

/// A program that was started.
pub(super) struct ProgramProcess {
    child: Child,
    group: Option<Pid>,
    stdin: Option<mpsc::Sender<Vec<u8>>>,
    /// The one that writes; it ends with this.
    _writer: JoinSet<()>,
}

impl BackEndProgram {
    /// A folder that the program sees at the same path, however it is isolated: the one for its temporary files, else its home, else the
    /// workspace. The first two are writable for every isolated program, also where the workspace is not, and those that a launcher makes
    /// are of this job alone and are removed after it, also if the runner was killed. In a workspace others would see a file, and commit it.
    pub(in crate::back_end) fn temporary_folder(&self) -> PathBuf {
        let folders = ["TMPDIR", "HOME"].into_iter().filter_map(|name| self.folder_of(name));
        folders.chain([self.workspace.clone()]).next().unwrap_or_default()
    }

    /// The folder that a variable of the program names, as an isolated program gets it: without links. The root is none: it is not
    /// writable for an isolated program, and nobody's own.
    fn folder_of(&self, variable: &str) -> Option<PathBuf> {
        let (_, folder) = self.environment.iter().rev().find(|(name, _)| name == variable)?;
        let folder = fs::canonicalize(folder).ok()?;
        (folder.is_dir() && folder.parent().is_some()).then_some(folder)
    }

    pub(super) fn start(&self, longest_line: usize) -> Result<(ProgramProcess, ProgramPipes), BackEndError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.workspace);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In a group of its own, signals reach what it started as well, and those of the terminal do not reach it.
        command.process_group(0).kill_on_drop(true);
        let program = self.program.display();
        let mut child = command.spawn().map_err(|error| {
            BackEndError::failed(format!("the back end {program} cannot be started: {error}"))
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(BackEndError::failed(format!("the back end {program} has no pipes")));
        };
        let (messages, unread) = mpsc::channel(MOST_UNREAD);
        let mut writer = JoinSet::new();
        writer.spawn(write_all(stdin, unread));
        let process = ProgramProcess {
            group: child.id().and_then(|id| Pid::from_raw(id.cast_signed())),
            child,
            stdin: Some(messages),
            _writer: writer,
        };
        let stdout = JsonlReader::new(stdout, longest_line);
        Ok((process, ProgramPipes { stdout, stderr: TextReader::new(stderr) }))
    }
}

/// Writes until nobody gives more; then the program sees the end of its input. A program that has closed it hears nothing more, which it
/// wants so.
async fn write_all(mut stdin: ChildStdin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = messages.recv().await {
        if stdin.write_all(&message).await.is_err() {
            return;
        }
    }
}

impl ProgramProcess {
    /// Gives it a line. A program that does not read is not waited for.
    pub fn tell(&self, mut json: Vec<u8>) -> Result<(), BackEndError> {
        json.push(b'\n');
        let stdin = self.stdin.as_ref().ok_or_else(|| BackEndError::failed("the back end is ending"))?;
        stdin.try_send(json).map_err(|_| BackEndError::failed("the back end does not read what it is told"))
    }

    /// Waits for its end. What it has started is ended then: it is not the back end, and keeps its pipes open.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.wait().await.ok();
        self.kill();
        status
    }

    /// SIGTERM to the whole group, and SIGKILL to what is left when the program has ended, or has not in time.
    pub async fn stop(&mut self) {
        self.stdin = None;
        self.signal(Signal::TERM);
        // Ended or not: what is left is killed.
        let _ = timeout(TERM_GRACE, self.child.wait()).await;
        self.kill();
        let _ = timeout(TERM_GRACE, self.child.wait()).await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group without a process is as good as one that heard it.
            let _ = kill_process_group(group, signal);
        }
    }

    /// The group has its number for as long as it has a process. When the last one has ended another program may get it, so it is used once.
    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.group = None;
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_in_a_folder_that_the_program_has() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let folder = |name: &str| root.join(name);
        for name in ["tmp", "home", "work"] {
            fs::create_dir(folder(name)).unwrap();
        }
        fs::write(folder("file"), "").unwrap();
        std::os::unix::fs::symlink(folder("tmp"), folder("link")).unwrap();
        for (temporary, home, found) in [
            (Some(folder("tmp")), Some(folder("home")), "tmp"),
            (Some(folder("link")), Some(folder("home")), "tmp"),
            (None, Some(folder("home")), "home"),
            (Some(folder("none")), Some(folder("home")), "home"),
            (Some(folder("file")), Some(PathBuf::from("/")), "work"),
            (None, None, "work"),
        ] {
            let variables = [("TMPDIR", &temporary), ("HOME", &home)].into_iter();
            let variables =
                variables.filter_map(|(name, value)| Some((OsString::from(name), value.clone()?.into())));
            let program = BackEndProgram {
                program: "agent".into(),
                arguments: Vec::new(),
                workspace: folder("work"),
                environment: variables.collect(),
            };
            assert_eq!(program.temporary_folder(), folder(found), "{temporary:?} {home:?}");
        }
    }
}
