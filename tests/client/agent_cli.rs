//! The commands of an agent: identities in a folder, and commands run one after another.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::support::{TestServer, printed, within};

/// The agents of these tests. Where one of these names is a word of a command, the command gets the name that the agent has at the
/// server, which has an end of the test's own if other tests use that server, too.
const NAMES: [&str; 4] = ["alice", "bobb", "carol", "dave"];

/// The agent commands of `aund` at a server, with identities in a folder of their own.
pub struct AgentCli {
    pub home: PathBuf,
    /// Where the commands are run.
    pub folder: PathBuf,
    pub gateway: String,
    /// What is behind a name in an AID of this test.
    behind: String,
    _owned_folder: TempDir,
}

/// `aund listen` that runs, or another command that goes on.
pub struct RunningListener {
    pub child: Child,
    notes: Lines<BufReader<ChildStderr>>,
}

impl AgentCli {
    /// In a folder with the root of the server, where nothing else need be said.
    pub fn new(server: &TestServer) -> AgentCli {
        let owned = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = owned.path().to_owned();
        fs::create_dir_all(folder.join("data/pki")).expect("a folder can be made");
        fs::write(folder.join("data/pki/root.crt"), server.root().pem()).expect("a file can be written");
        AgentCli {
            home: folder.join("home"),
            folder,
            gateway: format!("127.0.0.1:{}", server.tls_port),
            behind: server.aid(""),
            _owned_folder: owned,
        }
    }

    /// With agents of these names.
    pub async fn with(server: &TestServer, names: &[&str]) -> AgentCli {
        let cli = AgentCli::new(server);
        for name in names {
            cli.run(&["register", name]).await;
        }
        cli
    }

    /// The AID that a name has at the server.
    pub fn aid(&self, name: &str) -> String {
        format!("{name}{}", self.behind)
    }

    /// The same without the domain.
    pub fn name(&self, name: &str) -> String {
        let (end, _) = self.behind.split_once('.').expect("an AID has a domain");
        format!("{name}{end}")
    }

    pub async fn output_of(&self, words: &[&str]) -> Output {
        within("a command", self.command(words).output()).await.expect("aund can be started")
    }

    /// What a command printed, which must succeed.
    pub async fn run(&self, words: &[&str]) -> String {
        let output = self.output_of(words).await;
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", printed(&output.stderr));
        printed(&output.stdout)
    }

    /// The sentence of a command, which must fail.
    pub async fn run_refused(&self, words: &[&str]) -> String {
        let output = self.output_of(words).await;
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", printed(&output.stdout));
        assert!(output.stdout.is_empty(), "{words:?}: {}", printed(&output.stdout));
        let sentence = printed(&output.stderr);
        assert!(sentence.starts_with("aund: ") && sentence.trim().lines().count() == 1, "{sentence}");
        sentence
    }

    /// What a command says of an argument that cannot be used.
    pub async fn run_misused(&self, words: &[&str]) -> String {
        let output = self.output_of(words).await;
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", printed(&output.stderr));
        printed(&output.stderr)
    }

    /// A listener that is ready.
    pub async fn start_listener(&self, words: &[&str]) -> RunningListener {
        self.start_until(words, "is listening").await
    }

    /// A command that goes on after it has said this beside its output.
    pub async fn start_until(&self, words: &[&str], note: &str) -> RunningListener {
        let mut child = self.command(words).stderr(Stdio::piped()).spawn().expect("aund can be started");
        let notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut listener = RunningListener { child, notes };
        listener.wait_for_note(note).await;
        listener
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(crate::support::program());
        let typed = |word: &&str| if NAMES.contains(word) { self.name(word) } else { (*word).to_owned() };
        command.args(words.iter().map(typed));
        command.args(["--gateway", &self.gateway]).arg("--home").arg(&self.home);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    pub fn agent(&self, name: &str) -> PathBuf {
        self.home.join("agents").join(self.aid(name))
    }

    pub fn tokens(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.agent(name).join("tokens.json")).expect("tokens are kept");
        serde_json::from_str(&text).expect("tokens are JSON")
    }

    pub fn set_tokens(&self, name: &str, tokens: &Value) {
        fs::write(self.agent(name).join("tokens.json"), tokens.to_string()).expect("a file can be written");
    }
}

impl RunningListener {
    /// Waits for a line beside the output.
    pub async fn wait_for_note(&mut self, word: &str) -> String {
        loop {
            let line = within(word, self.notes.next_line()).await.expect("it can be read");
            let line = line.unwrap_or_else(|| panic!("the listener ended before it said {word:?}"));
            if line.contains(word) {
                return line;
            }
        }
    }

    /// Waits for its end, and gives its code and what it printed.
    pub async fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let mut text = String::new();
        let mut stdout = self.child.stdout.take().expect("a pipe");
        within("the output", stdout.read_to_string(&mut text)).await.expect("it is text");
        let status = within("the end", self.child.wait()).await.expect("it is our child");
        (status.code(), text.lines().map(str::to_owned).collect())
    }
}

pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

pub fn texts(lines: &[String]) -> Vec<Value> {
    let frames = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("a line is a frame"));
    frames.map(|frame| frame["params"]["payload"]["text"].clone()).collect()
}
