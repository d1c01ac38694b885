//! What the tests share: the real `aund` in a fresh folder, and agents with real keys.
//!
//! A server listens on two free ports of the loopback address, with TLS and without. Most tests use one together
//! ([`TestServer::shared`]); one that a test has to itself ([`TestServer::start`]) is gone when it ends. If a test failed, the end of
//! the log is shown.

pub mod agent;
pub mod blocker;
pub mod calls;
pub mod database;
pub mod domain;
pub mod envelope;
mod held;
pub mod http;
pub mod mesh_link;
mod operator;
mod shared;
pub mod socket;
mod store;
pub mod wait;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use certs::Certificate;
use shared::TestShare;
use tempfile::TempDir;
pub use wait::{until, within};

/// The program that the tests are about. `AUND_TEST_BIN` names another build of it, so that a new test can be seen to fail on the one
/// before.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| setting("AUND_TEST_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_aund").to_string()))
}

/// The domain of every test that needs only one.
pub const ISSUER: &str = "agents.localhost";

/// A server, its folder, and where it listens now. The folder outlives a restart, the ports do not.
pub struct TestServer {
    folder: PathBuf,
    _owned_folder: Option<TempDir>,
    store: String,
    /// How many gateways share the ports, if the server is several processes.
    shared_by: u8,
    /// The service that runs as two processes, if the server is several.
    twice: Option<&'static str>,
    process: Option<Child>,
    /// What tells this test from others, if it has not got the server to itself.
    share: Option<TestShare>,
    /// The domain whose server this is.
    pub issuer: String,
    /// Where it listens, with TLS and without.
    listen: [SocketAddrV4; 2],
    /// The port that speaks TLS.
    pub tls_port: u16,
    /// The port that does not.
    pub plain_port: u16,
    /// Where each gateway shows its metrics, if the server is several processes.
    gateways: Vec<String>,
    /// And where each of the other processes does.
    services: Vec<String>,
}

impl TestServer {
    /// A fresh server with default settings, for one test alone.
    pub async fn start() -> TestServer {
        TestServer::with("").await
    }

    /// A fresh server with some settings of its own, written as they stand in a configuration file.
    pub async fn with(settings: &str) -> TestServer {
        let mut server = TestServer::prepared(settings);
        server.start_again();
        server
    }

    /// The same with one gateway, also where the server is several processes: for what is a limit of one process.
    pub async fn with_one_gateway(settings: &str) -> TestServer {
        let mut server = TestServer::prepared(settings);
        server.shared_by = 1;
        server.start_again();
        server
    }

    /// The same with two processes of a service, where the server is several.
    pub async fn with_two(service: &'static str, settings: &str) -> TestServer {
        let mut server = TestServer::prepared(settings);
        server.twice = Some(service);
        server.start_again();
        server
    }

    /// A server that listens on the same ports after each start, for those that find it by itself again.
    pub fn on_ports_that_stay(settings: &str) -> TestServer {
        TestServer::on_known_ports(|_| settings.to_owned())
    }

    /// The same with settings that name the port without TLS.
    pub fn on_known_ports(settings: impl FnOnce(u16) -> String) -> TestServer {
        TestServer::on_known_ports_as(None, settings)
    }

    /// The same with two processes of a service, where the server is several.
    pub fn on_known_ports_with_two(
        service: &'static str,
        settings: impl FnOnce(u16) -> String,
    ) -> TestServer {
        TestServer::on_known_ports_as(Some(service), settings)
    }

    fn on_known_ports_as(twice: Option<&'static str>, settings: impl FnOnce(u16) -> String) -> TestServer {
        // Both are free at the same time, so they are two.
        let free = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free"));
        let ports = free.map(|listener| listener.local_addr().expect("it listens").port());
        let listen = ports.map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        let mut server = TestServer::prepared_as(ISSUER, listen, store_url(), &settings(ports[1]));
        server.twice = twice;
        server.start_again();
        server
    }

    /// The folder of a server that has not been started yet.
    pub fn prepared(settings: &str) -> TestServer {
        TestServer::prepared_on(store_url(), settings)
    }

    /// The same, with a store of the test's choice.
    pub fn prepared_on(store: String, settings: &str) -> TestServer {
        // Two free ports, others after each start.
        TestServer::prepared_as(ISSUER, [SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0); 2], store, settings)
    }

    fn prepared_as(issuer: &str, listen: [SocketAddrV4; 2], store: String, settings: &str) -> TestServer {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let server = TestServer {
            folder: folder.path().to_owned(),
            _owned_folder: Some(folder),
            store,
            shared_by: 2,
            twice: None,
            process: None,
            share: None,
            issuer: issuer.to_owned(),
            listen,
            tls_port: 0,
            plain_port: 0,
            gateways: Vec::new(),
            services: Vec::new(),
        };
        let text = format!("issuer = \"{issuer}\"\nstore.url = \"{}\"\n{settings}\n", server.store);
        fs::write(server.config(), text).expect("a file can be written");
        server
    }

    /// Starts the stopped server on the same folder.
    pub fn start_again(&mut self) {
        self.start_build(program());
    }

    /// The same with another build of the program.
    pub fn start_build(&mut self, aund: &str) {
        let mut command = self.serve_command(aund);
        command.stdin(Stdio::null());
        self.start_with(command);
    }

    /// Starts the stopped server where no file can grow beyond so many KiB, as on a disk that is full.
    pub fn start_on_a_full_disk(&mut self, kib: u32) {
        // A write beyond the limit is an error only where its signal is ignored.
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", kib * 2);
        let serve = self.serve_command(program());
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(serve.get_program()).args(serve.get_args());
        command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.start_with(command);
    }

    /// Starts the stopped server where nothing that it logs can be written, as on a disk that is full.
    pub fn start_without_log(&mut self) {
        let serve = self.serve_command(program());
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("exec \"$0\" \"$@\" 2>/dev/full")
            .arg(serve.get_program())
            .args(serve.get_args());
        command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(&self.folder);
        self.start_with(command);
    }

    fn start_with(&mut self, mut command: Command) {
        self.assert_own();
        assert!(self.process.is_none(), "the server already runs");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())
            .expect("a log can be kept");
        command.stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().expect("aund can be started");
        let banner = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
        self.process = Some(process);

        let (tell, told) = mpsc::channel();
        // The rest of what the server prints is read too, so that it never waits for us.
        std::thread::spawn(move || {
            banner.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)))
        });
        self.tls_port = port(&wait_for_line(&told, "gateway "));
        self.plain_port = port(&wait_for_line(&told, "plain "));
        if split() {
            let addresses =
                |line: String| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
            self.services = addresses(wait_for_line(&told, "services "));
            self.gateways = addresses(wait_for_line(&told, "gateways "));
        }
    }

    /// SIGTERM, as a service manager does it.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// A signal by its name.
    pub fn signal(&self, name: &str) {
        self.assert_own();
        let process = self.process.as_ref().expect("the server runs");
        let sent = Command::new("kill").args([format!("-{name}"), process.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} can be sent");
    }

    /// Waits until the server has ended by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        self.assert_own();
        let mut process = self.process.take().expect("the server runs");
        until("the server ends", || std::future::ready(process.try_wait().expect("it is our child"))).await
    }

    /// SIGKILL: no close reason, nothing flushed.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Stops the server in an orderly way and starts it again.
    pub async fn restart(&mut self) {
        self.terminate();
        let status = self.ended().await;
        assert!(status.success(), "a drained server ends with {status}");
        self.start_again();
    }

    /// What the server holds in memory, in bytes, with all its processes if it has several.
    pub fn memory(&self) -> u64 {
        self.processes().into_iter().map(resident).sum()
    }

    /// The time that it has kept a core busy, in ticks of a hundredth of a second, with all its processes if it has several.
    pub fn cpu_ticks(&self) -> u64 {
        self.processes().into_iter().map(cpu_ticks).sum()
    }

    fn processes(&self) -> Vec<u32> {
        self.assert_own();
        let process = self.process.as_ref().expect("the server runs").id();
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let children = children.expect("the system tells");
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        std::iter::once(process).chain(children).collect()
    }

    /// The folder with keys, certificates and SQLite files.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where the services keep their data, as the settings say it.
    pub fn store(&self) -> &str {
        self.assert_own();
        &self.store
    }

    /// The address of its listeners.
    pub fn host(&self) -> Ipv4Addr {
        *self.listen[0].ip()
    }

    /// A path beside the data folder.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.assert_own();
        self.folder.join(name)
    }

    pub fn config(&self) -> PathBuf {
        self.folder.join("aund.toml")
    }

    /// The root certificate that clients of this server are told to trust.
    pub fn root(&self) -> Certificate {
        let pem = fs::read_to_string(self.data().join("pki/root.crt")).expect("the server wrote its root");
        Certificate::from_pem(&pem).expect("the root is a certificate")
    }

    /// Another `aund` command on the same folder and settings, run to its end.
    pub async fn aund(&self, words: &[&str]) -> Output {
        self.assert_own();
        let mut command = self.command(words);
        let ended = tokio::task::spawn_blocking(move || command.output());
        within("an aund command", ended).await.expect("the thread lives").expect("aund can be started")
    }

    /// Waits until at most so many sessions are left, and every process has heard of it.
    pub async fn at_most_sessions(&self, many: u32) {
        self.assert_own();
        let counted = || async { (self.metric("aund_sessions ").await <= f64::from(many)).then_some(()) };
        until("sessions end", counted).await;
        self.presence_is(|sessions| sessions <= f64::from(many)).await;
    }

    /// Waits until every process knows of so many long connections; a single process does from their welcome on.
    pub async fn at_least_sessions(&self, many: u32) {
        self.assert_own();
        self.presence_is(|sessions| sessions >= f64::from(many)).await;
    }

    /// In every process, if the server is several.
    async fn presence_is(&self, as_wanted: impl Fn(f64) -> bool) {
        for process in self.services.iter().chain(&self.gateways) {
            let heard = || async {
                as_wanted(self.metric_of(process, "aund_presence_sessions ").await).then_some(())
            };
            until("all processes hear who is here", heard).await;
        }
    }

    /// Everything the server has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The server as one process or, where the suite runs in that shape, as many that look like one.
    fn serve_command(&self, aund: &str) -> Command {
        let [secure, plain] = self.listen.map(|address| address.to_string());
        let mut command =
            self.command_of(aund, &["serve", "--listen", &secure, "--listen", &format!("plain:{plain}")]);
        if split() {
            let redis = setting("AUND_TEST_REDIS_URL").expect("AUND_TEST_REDIS_URL says where Redis is");
            let mut many = Command::new(setting("AUND_TEST_PYTHON").unwrap_or_else(|| "python3".to_owned()));
            many.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/split/serve"));
            many.args(command.get_args()).env("AUND_BIN", aund).env("AUND_SPLIT_BUS", redis);
            many.env("AUND_SPLIT_GATEWAYS", self.shared_by.to_string());
            many.env("AUND_SPLIT_TWICE", self.twice.unwrap_or_default());
            command = many;
        }
        command.current_dir(&self.folder);
        command
    }

    fn command(&self, words: &[&str]) -> Command {
        self.command_of(program(), words)
    }

    fn command_of(&self, aund: &str, words: &[&str]) -> Command {
        let mut command = Command::new(aund);
        command.args(words).arg("--config").arg(self.config()).arg("--data").arg(self.data());
        command.current_dir(&self.folder);
        command
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("aund.log")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        // The folder itself: a server that tests share says of itself only what disturbs none of them.
        let data = ["data", "split/run1", "split/run2"].map(|name| self.folder.join(name));
        if data.iter().any(|folder| folder.join("runners/jobs").exists()) {
            kill_below(&self.folder);
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            eprintln!("the end of the server's log:\n{}", lines[last..].join("\n"));
        }
    }
}

/// Kills what has its home below a folder: runners outlive their server, and look for it for a long time.
pub fn kill_below(folder: &Path) {
    let home = format!("HOME={}/", folder.display());
    let entries = fs::read_dir("/proc").expect("there are processes");
    let processes: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    for process in processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|one| one.starts_with(home.as_bytes())) {
            let _ = Command::new("kill").args(["-KILL", process]).stderr(Stdio::null()).status();
        }
    }
}

/// `aund` alone, without a folder or settings.
pub fn aund(words: &[&str], folder: &Path) -> Output {
    Command::new(program())
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("aund can be started")
}

fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    let kib: u64 = line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    kib << 10
}

fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the system tells");
    // The name of the program is in parentheses and may hold anything; behind it the time in user and kernel mode are the
    // twelfth and the thirteenth.
    let (_, behind) = stat.rsplit_once(')').expect("the name of the program");
    let times = behind.split_whitespace().skip(11).take(2);
    times.map(|time| time.parse::<u64>().expect("a number")).sum()
}

/// What a command printed, as text.
pub fn printed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The certificates of a PEM text, in its order.
pub fn certificates(pem: &str) -> Vec<Certificate> {
    let blocks = pem
        .split_inclusive("-----END CERTIFICATE-----\n")
        .filter(|block| block.contains("BEGIN CERTIFICATE"));
    blocks
        .map(|block| Certificate::from_pem(block.trim_start()).expect("each block is a certificate"))
        .collect()
}

/// Whether the suite runs on SQLite, the store that lives in the data folder.
pub fn on_sqlite() -> bool {
    setting("AUND_TEST_STORE").is_none_or(|store| store == "sqlite")
}

/// Whether the suite runs against a server of many processes.
pub fn split() -> bool {
    setting("AUND_TEST_SHAPE").is_some_and(|shape| shape == "split")
}

/// How often something is done to a server of one process, and how often to one of many: there a step takes several times as long.
pub fn as_often<T>(whole: T, of_many: T) -> T {
    if split() { of_many } else { whole }
}

/// The present, in unix seconds.
#[expect(clippy::disallowed_methods, reason = "a test lives in the same time as the server it talks to")]
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("it is after 1970").as_secs().cast_signed()
}

/// The present, in unix milliseconds.
#[expect(clippy::disallowed_methods, reason = "a test lives in the same time as the server it talks to")]
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.expect("it is after 1970").as_millis()).expect("it is before the end of time")
}

/// A store that no other test shares: a folder of its own, or schemas of its own in the database we were given.
fn store_url() -> String {
    match setting("AUND_TEST_STORE").as_deref() {
        None | Some("sqlite") => "sqlite:".to_owned(),
        Some("postgres") => {
            let url =
                setting("AUND_TEST_POSTGRES_URL").expect("AUND_TEST_POSTGRES_URL says where PostgreSQL is");
            format!("{url}?schema_prefix=t{}_", agent::random_hex(8))
        }
        Some(other) => panic!("AUND_TEST_STORE is sqlite or postgres, not {other}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the suite is told about its stores by the environment")]
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn wait_for_line(told: &mpsc::Receiver<String>, word: &str) -> String {
    // Beside many servers, each of many processes, a start takes longer than anything else.
    let deadline = Instant::now() + 2 * wait::WAIT_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match told.recv_timeout(left) {
            Ok(line) if line.trim_start().starts_with(word) => return line,
            Ok(_) => {}
            Err(problem) => panic!("aund did not print its line {word:?}: {problem}"),
        }
    }
}

/// The port in a line such as `plain  ws://127.0.0.1:20002/aun`.
fn port(line: &str) -> u16 {
    let digits =
        line.split("://").nth(1).and_then(|rest| rest.split('/').next()?.rsplit(':').next()?.parse().ok());
    digits.unwrap_or_else(|| panic!("there is no port in {line:?}"))
}
