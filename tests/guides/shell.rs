//! The shell of somebody who follows a guide: one `bash` for all of its commands, in a folder of its own.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::guide::GuideStep;
use super::output::matches;
use crate::support::agent::random_hex;
use crate::support::{kill_below, program, setting};

/// The ports that guides name. Each run has others in their place, because guides run at the same time.
const PORTS: [&str; 5] = ["20001", "21001", "21002", "5433", "6380"];

/// How the ports of a server of several processes begin: 7101 and 7201 are 15101 and 15201, or 19101 and 19201.
const PROCESS_PORTS: [(&str, &str); 2] = [("710", "10"), ("720", "20")];

/// PostgreSQL does not run as root, and the tests may.
const NOBODY: u32 = 65_534;

/// Where those are taken from: the system gives out none of them to programs that ask for any port.
const FREE_PORTS: std::ops::Range<u32> = 21_100..32_000;

/// How long a command may take, with a server that starts on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Commands that go on until somebody ends them.
const SERVERS: [&str; 4] = ["aund serve", "aund --issuer", "cargo run --release", "aund"];

/// Commands that show what others do, a moment later: they are typed again until they do.
const READERS: [&str; 6] =
    ["aund agents search", "aund agents show", "aund peers", "aund tasks list", "aund pull", "aund health"];

/// `aund`, as a reader has it after the README. The default port is that of this run: the server listens on it, and an agent that
/// registers is told; from then on it knows its gateway.
const AUND: &str = r#"#!/bin/bash
case "$1" in
    register|demo) case "$*" in *--gateway*) ;; *) set -- "$@" --gateway "127.0.0.1:$GUIDE_PORT" ;; esac ;;
    ''|serve) case "$*" in *--listen*|*--config*) ;; *) set -- "$@" --listen "127.0.0.1:$GUIDE_PORT" ;; esac ;;
esac
exec "$GUIDE_PROGRAM" "$@"
"#;

/// `cargo run --release`, of which the result is there already.
const CARGO: &str = "#!/bin/bash\nshift 2\n[ \"$1\" = -- ] && shift\nexec aund \"$@\"\n";

pub struct GuideShell {
    /// Its folders: `here`, where the commands are typed, and what the shell needs beside it.
    folder: TempDir,
    /// The ports of the guide, each with that of this run.
    ports: Vec<(&'static str, String)>,
    bash: Child,
    steps: usize,
}

/// How a step went: what it printed, with its code once it has ended.
struct Progress {
    printed: Vec<String>,
    code: Option<i32>,
}

impl GuideShell {
    pub fn start() -> GuideShell {
        GuideShell::open(None, &[])
    }

    /// A shell that is not root's, even if this test is.
    pub fn start_without_root() -> GuideShell {
        let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        GuideShell::open(root.then_some(NOBODY), &PROCESS_PORTS)
    }

    fn open(user: Option<u32>, processes: &[(&'static str, &str)]) -> GuideShell {
        let owned = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = owned.path().join("here");
        for made in ["here/target/release", "home", "steps", "bin"] {
            fs::create_dir_all(owned.path().join(made)).expect("a folder can be made");
        }
        script(&owned.path().join("bin/aund"), AUND);
        script(&owned.path().join("bin/cargo"), CARGO);
        symlink(owned.path().join("bin/aund"), folder.join("target/release/aund"))
            .expect("a link can be made");
        let path = setting("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc"]).current_dir(&folder).env_clear();
        command.env("PATH", format!("{}:{path}", owned.path().join("bin").display()));
        command.env("HOME", owned.path().join("home")).env("LANG", "C.UTF-8").env("TERM", "dumb");
        let ports = own_ports(processes);
        command.env("GUIDE_PORT", &ports[0].1).env("GUIDE_PROGRAM", program());
        if let Some(user) = user {
            let given = Command::new("chown").args(["-R", &user.to_string()]).arg(owned.path()).status();
            assert!(given.is_ok_and(|status| status.success()), "the folder can be given away");
            command.uid(user).gid(user);
        }
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let bash = command.spawn().expect("there is bash");
        let mut shell = GuideShell { folder: owned, ports, bash, steps: 0 };
        shell.type_in("shopt -s expand_aliases\n");
        shell
    }

    /// Types a command, and waits until it has printed what the guide prints.
    pub fn run(&mut self, step: &GuideStep, guide: &str) {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            let goes_on = self.begin(&step.command);
            let progress = self.wait(step, goes_on, deadline);
            if progress.is_as_printed(step, goes_on) {
                return;
            }
            let again = READERS.iter().any(|reader| step.command.starts_with(reader));
            if !again || Instant::now() > deadline {
                let Progress { printed, code } = progress;
                let (guide_lines, printed) = (step.output.join("\n"), printed.join("\n"));
                panic!(
                    "{guide}:{}: $ {}\n--- the guide has\n{guide_lines}\n--- and it prints\n{printed}\n--- code {code:?}",
                    step.line, step.command
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Types it; says whether it goes on until it is ended.
    fn begin(&mut self, command: &str) -> bool {
        self.steps += 1;
        let ports = self.ports.iter();
        let command = ports.fold(command.to_owned(), |text, (guide, own)| text.replace(guide, own));
        let (output, code) = (self.file("out"), self.file("code"));
        let (output, code) = (output.display(), code.display());
        let bare = command.split(" #").next().unwrap_or_default().trim();
        let is = |server: &&str| match *server {
            "aund" => bare == "aund",
            server => bare.starts_with(server) && !bare.contains(" -- "),
        };
        let goes_on = SERVERS.iter().any(is) || bare.starts_with("aund listen");
        let typed = match goes_on {
            // Not in braces: what is ended is the program itself.
            true => format!("{bare} > {output} 2>&1 < /dev/null & GUIDE_LAST=$!\n"),
            false => format!(
                "{{\n{command}\n}} > {output} 2>&1 < /dev/null; GUIDE_CODE=$?; echo $GUIDE_CODE > {code}.new; mv {code}.new {code}; (exit $GUIDE_CODE)\n"
            ),
        };
        self.type_in(&typed);
        goes_on
    }

    fn type_in(&mut self, text: &str) {
        let stdin = self.bash.stdin.as_mut().expect("stdin is a pipe");
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).expect("bash reads");
    }

    fn wait(&mut self, step: &GuideStep, goes_on: bool, deadline: Instant) -> Progress {
        loop {
            let progress = self.progress();
            let shown = goes_on && progress.is_as_printed(step, true);
            if shown && step.command.starts_with("aund listen") {
                self.type_in("kill -TERM $GUIDE_LAST; wait $GUIDE_LAST\n");
            }
            if shown || progress.code.is_some() || Instant::now() > deadline {
                return progress;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn progress(&self) -> Progress {
        // The code is written last.
        let code = fs::read_to_string(self.file("code")).ok().and_then(|code| code.trim().parse().ok());
        let printed = fs::read_to_string(self.file("out")).unwrap_or_default();
        let home = self.folder.path().join("home").display().to_string();
        let printed = self.ports.iter().fold(printed, |text, (guide, own)| text.replace(own, guide));
        let printed = printed.replace(&home, "~");
        Progress { printed: printed.lines().map(str::to_owned).collect(), code }
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.path().join(format!("steps/{}.{kind}", self.steps))
    }
}

impl Progress {
    /// A server that prints nothing in its guide has said that it is ready; what goes to its log is nobody's business.
    fn is_as_printed(&self, step: &GuideStep, goes_on: bool) -> bool {
        match goes_on && step.output.is_empty() {
            true => self.printed.iter().any(|line| line.ends_with("is ready")),
            false => matches(&self.printed, &step.output) && (goes_on || self.may_end_so(step)),
        }
    }

    /// A command may fail where its guide shows the sentence of a failure.
    fn may_end_so(&self, step: &GuideStep) -> bool {
        self.code == Some(0)
            || self.code.is_some() && step.output.iter().any(|line| line.starts_with("aund: "))
    }
}

impl Drop for GuideShell {
    /// Ends the shell, and the servers that it started, with their runners.
    fn drop(&mut self) {
        let group = format!("-{}", self.bash.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.bash.wait();
        kill_below(self.folder.path());
    }
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("a file can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it can be made a program");
}

fn own_ports(processes: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let single = PORTS.map(|port| (port, free_port()));
    let begin = 11 + random() % 9;
    let processes = processes.iter().map(|(port, end)| (*port, format!("{begin}{end}")));
    single.into_iter().chain(processes).collect()
}

fn random() -> u32 {
    u32::from_str_radix(&random_hex(4), 16).expect("it is hexadecimal")
}

/// One that has no port of a guide in it, so that each is replaced once.
fn free_port() -> String {
    let many = FREE_PORTS.end - FREE_PORTS.start;
    let random = || random() % many + FREE_PORTS.start;
    let is_plain = |port: &String| {
        !PORTS.iter().chain(PROCESS_PORTS.iter().map(|(port, _)| port)).any(|known| port.contains(known))
    };
    let is_free = |port: &String| {
        let port: u16 = port.parse().expect("a port has 16 bits");
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
    };
    let mut ports = std::iter::repeat_with(random).map(|port| port.to_string());
    ports.find(|port| is_plain(port) && is_free(port)).expect("there is always another one")
}
