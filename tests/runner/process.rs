//! A runner as a process, started as somebody else's supervisor would start it.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::runs::client::{TestBackEnd, TestManager};
use crate::support::agent::text;
use crate::support::{TestServer, program, until};

/// A runner that is killed with its test.
pub struct RunnerProcess {
    child: Child,
    folder: TempDir,
}

/// How a runner is started, besides what its job says.
#[derive(Clone, Default)]
pub struct RunnerWords {
    pub words: Vec<String>,
    /// The program of its back end, in place of the example.
    pub program: Vec<String>,
    /// Content of the file of its credential.
    pub credential: Option<String>,
    /// The manager by its port without TLS.
    pub is_plain: bool,
}

impl RunnerWords {
    pub fn of(words: &[&str]) -> RunnerWords {
        RunnerWords { words: words.iter().map(|word| (*word).to_owned()).collect(), ..RunnerWords::default() }
    }

    pub fn with_program(mut self, script: &str) -> RunnerWords {
        self.program = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        self
    }
}

impl RunnerProcess {
    /// For a job of the launcher `external`. The token comes by standard input.
    pub fn start(server: &TestServer, job: &Value, how: &RunnerWords) -> RunnerProcess {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut command = Command::new(program());
        let (scheme, port) =
            if how.is_plain { ("http", server.plain_port) } else { ("https", server.tls_port) };
        command.arg("runner").arg("--manager").arg(format!("{scheme}://gateway.{}:{port}", server.issuer));
        command.arg("--root").arg(server.data().join("pki/root.crt"));
        command.args(["--run", &text(&job["runId"]), "--attempt", &text(&job["attemptId"])]);
        command.args(["--command", &text(&job["commandId"])]);
        command.arg("--workspace").arg(folder.path());
        if let Some(credential) = &how.credential {
            let file = folder.path().join("credential");
            std::fs::write(&file, credential).expect("a file can be written");
            command.arg("--credential-file").arg(file).args(["--credential-env", "PROVIDER_API_KEY"]);
        }
        command.args(&how.words);
        if !how.program.is_empty() {
            command.arg("--").args(&how.program);
        }
        let log = File::create(folder.path().join("log")).expect("a log can be kept");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn().expect("aund can be started");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        stdin.write_all(text(&job["runnerToken"]).as_bytes()).expect("it reads its token");
        RunnerProcess { child, folder }
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} can be sent");
    }

    /// SIGKILL, and nothing is left of it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        until("the runner ends", || std::future::ready(child.try_wait().expect("it is our child"))).await
    }

    /// What it has said on standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A file in its workspace.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for RunnerProcess {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the log of the runner:\n{}", self.log());
        }
    }
}

/// A run with a runner.
pub struct WorkedRun {
    pub back_end: TestBackEnd,
    pub run: String,
    /// The first command.
    pub command: String,
    pub runner: RunnerProcess,
}

impl WorkedRun {
    pub async fn begin(manager: &TestManager, prompt: &str, how: &RunnerWords) -> WorkedRun {
        WorkedRun::begin_with(manager, prompt, how, |_| {}).await
    }

    /// With another policy, for instance.
    pub async fn begin_with(
        manager: &TestManager,
        prompt: &str,
        how: &RunnerWords,
        change: impl FnOnce(&mut Value),
    ) -> WorkedRun {
        let back_end = manager.back_end().await;
        let mut new = back_end.new_run();
        change(&mut new);
        let run = text(&back_end.api.ok("POST", "/runs", &new, 201).await["runId"]);
        let command = back_end.turn(&run, prompt).await;
        let job = back_end.job(&run, &command).await;
        let runner = RunnerProcess::start(&manager.server, &job, how);
        WorkedRun { back_end, run, command, runner }
    }

    /// The command when it has ended.
    pub async fn ended(&self, command: &str) -> Value {
        let ended = || async {
            let read = self.back_end.read_command(&self.run, command).await;
            (!read["terminalStatus"].is_null()).then_some(read)
        };
        until("the command ends", ended).await
    }

    /// The result of a turn that has completed.
    pub async fn completed(&self, command: &str) -> Value {
        let ended = self.ended(command).await;
        assert_eq!(ended["state"], "completed", "{ended}");
        self.back_end.result(&self.run, command).await
    }

    /// The state of a command that has ended, and its kind of failure.
    pub async fn outcome(&self, command: &str) -> (String, String) {
        let ended = self.ended(command).await;
        (text(&ended["state"]), ended["failureKind"].as_str().unwrap_or_default().to_owned())
    }

    /// One more turn, to its end.
    pub async fn turn(&self, prompt: &str) -> Value {
        let command = self.back_end.turn(&self.run, prompt).await;
        self.completed(&command).await
    }

    pub async fn submit(&self, kind: &str, payload: Value) -> String {
        self.back_end.command(&self.run, &json!({ "type": kind, "payload": payload })).await
    }

    pub async fn events(&self) -> Vec<Value> {
        self.back_end.api.events(&self.run).await
    }

    /// Waits until this was said in parts of messages.
    pub async fn said(&self, words: &str) {
        let said = || async { said_in(&self.events().await).contains(words).then_some(()) };
        until("it is said", said).await;
    }

    /// The questions that are open.
    pub async fn question(&self) -> String {
        let path = format!("/runs/{}/approvals", self.run);
        let asked = || async {
            let read = self.back_end.api.get(&path).await;
            read["approvals"][0]["approvalId"].as_str().map(str::to_owned)
        };
        until("it asks", asked).await
    }

    /// A job for another runner of the run, when the lease of the one before is over.
    pub async fn next_job(&self, command: &str) -> Value {
        let path = format!("/runs/{}/runner-jobs", self.run);
        let body = json!({ "commandId": command, "launcher": "external" });
        let made = || async {
            let mut answer = self.back_end.api.call("POST", &path, &body).await;
            (answer.status == 201).then(|| answer.body["data"].take())
        };
        until("the lease is over", made).await
    }
}

/// What was said in parts, one after the other.
pub fn said_in(events: &[Value]) -> String {
    let parts = events.iter().filter(|event| event["payload"]["partial"] == true);
    parts.filter_map(|event| event["payload"]["text"].as_str()).collect()
}

/// The payloads of the events of a type.
pub fn payloads<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).map(|event| &event["payload"]).collect()
}
