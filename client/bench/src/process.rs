//! The servers under measurement: child processes, their addresses, CPU time and memory.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::agent::{BenchEndpoint, ISSUER, Transport};
use super::rounds::{Latencies, Sample};

/// How long a server may take to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// What `utime` and `stime` of `/proc/PID/stat` count in: USER_HZ, which Linux fixes for its interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// Every limit is on and is counted, and none is reached: the bench is one very busy address. Pings are sent as
/// always, but a connection that waits while the other server has its round may answer late.
pub(super) const CONFIG: &str = "\
[limits]
sockets = 60000
sockets_per_address = 60000
connects_per_second = 10000000
http_per_second = 10000000
registrations_per_minute = 10000000
logins_per_minute = 10000000
calls_per_second = 10000000
ping_timeout_ms = 600000
";

/// The `aund` that a server is started from: this one, or the build before it.
#[derive(Clone, Debug)]
pub(super) struct Build(PathBuf);

/// A running server; it ends when this is dropped.
pub(super) struct BenchServer {
    child: Child,
    pid: Pid,
    plain: BenchEndpoint,
    tls: BenchEndpoint,
    /// The services that run in processes of their own.
    services: Vec<ServiceProcess>,
    _stdout: Lines<BufReader<ChildStdout>>,
}

/// A process without a gateway.
pub(super) struct ServiceProcess {
    pid: Pid,
    _child: Child,
    _stdout: Lines<BufReader<ChildStdout>>,
}

/// A folder of its own for each server, removed with everything in it.
pub(super) struct BenchFolder(PathBuf);

/// A process whose CPU time and memory can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pid(u32);

/// CPU time and wall time since a moment.
pub(super) struct Meter {
    pids: Vec<Pid>,
    since: Instant,
    cpu: f64,
}

/// Makes space for `connections` on each side, in this process and in the children, which inherit the limit.
pub(super) fn raise_file_limit(connections: usize) -> anyhow::Result<()> {
    const SPARE: u64 = 1_000;
    let needed = connections as u64 + SPARE;
    let mut files =
        rlimit::increase_nofile_limit(needed).context("the limit of open files could not be read")?;
    // Only a privileged process may raise the hard limit, so this may fail.
    if files < needed && rlimit::setrlimit(rlimit::Resource::NOFILE, needed, needed).is_ok() {
        files = needed;
    }
    if files < needed {
        bail!(
            "{connections} idle connections need {needed} open files and the limit is {files}: raise `ulimit -n`"
        );
    }
    Ok(())
}

impl BenchServer {
    /// Starts the raw baseline: the echo.
    pub(super) async fn raw() -> anyhow::Result<Self> {
        let mut command = Build::this()?.command();
        command.arg("bench-raw").stderr(Stdio::inherit());
        Self::start(command).await.context("the raw baseline did not start")
    }

    /// Starts the raw baseline of HTTP, which reads the rows of this file.
    pub(super) async fn raw_http(file: &Path) -> anyhow::Result<Self> {
        let mut command = Build::this()?.command();
        command.args(["bench-raw", "--http"]).arg(file).stderr(Stdio::inherit());
        Self::start(command).await.context("the raw baseline of HTTP did not start")
    }

    /// Starts the raw baseline of delivery: the relay.
    pub(super) async fn relay() -> anyhow::Result<Self> {
        let mut command = Build::this()?.command();
        command.args(["bench-raw", "--relay"]).stderr(Stdio::inherit());
        Self::start(command).await.context("the raw relay did not start")
    }

    /// Starts the raw baseline of a routed call: the echo behind another process that forwards every frame.
    pub(super) async fn raw_through() -> anyhow::Result<Self> {
        let echo = Self::raw().await?;
        let mut command = Build::this()?.command();
        command.args(["bench-raw", "--through", echo.plain.url()]).stderr(Stdio::inherit());
        let service = ServiceProcess { pid: echo.pid, _child: echo.child, _stdout: echo._stdout };
        Self::with_services(command, vec![service]).await.context("the raw gateway did not start")
    }

    /// Starts a real server on `folder`, which it finds as an earlier one left it. Its data is in this store, or else in
    /// SQLite files of that folder. It is given only flags and settings that older builds know, too.
    pub(super) async fn aund(
        build: &Build,
        folder: &BenchFolder,
        store: Option<&str>,
    ) -> anyhow::Result<Self> {
        Self::aund_with(build, folder, store, CONFIG).await
    }

    /// The same with settings that older builds do not know.
    pub(super) async fn aund_with(
        build: &Build,
        folder: &BenchFolder,
        store: Option<&str>,
        settings: &str,
    ) -> anyhow::Result<Self> {
        let (config, log) = (folder.file("aund.toml"), folder.file("aund.log"));
        std::fs::write(&config, settings).context("the server's config could not be written")?;
        let stderr = std::fs::File::create(&log).context("the server's log could not be made")?;
        let mut command = build.command();
        command.args([
            "serve",
            "--issuer",
            ISSUER,
            "--listen",
            "127.0.0.1:0",
            "--listen",
            "plain:127.0.0.1:0",
        ]);
        command.arg("--data").arg(folder.file("data")).arg("--config").arg(config).stderr(stderr);
        if let Some(url) = store {
            command.args(["--store", url]);
        }
        Self::start(command)
            .await
            .with_context(|| format!("aund did not start; its log ends:\n{}", tail(&log)))
    }

    pub(super) async fn start(command: Command) -> anyhow::Result<Self> {
        Self::with_services(command, Vec::new()).await
    }

    /// A gateway whose services run in other processes.
    pub(super) async fn with_services(
        command: Command,
        services: Vec<ServiceProcess>,
    ) -> anyhow::Result<Self> {
        let (child, mut lines) = spawn(command)?;
        let pid = Pid::of(&child)?;
        let (plain, tls) = tokio::time::timeout(START_TIMEOUT, banner(&mut lines))
            .await
            .with_context(|| format!("no banner within {START_TIMEOUT:?}"))??;
        Ok(Self { child, pid, plain, tls, services, _stdout: lines })
    }

    pub(super) fn endpoint(&self, transport: Transport) -> &BenchEndpoint {
        match transport {
            Transport::Plain => &self.plain,
            Transport::Tls => &self.tls,
        }
    }

    /// Of all its processes together.
    pub(super) fn meter(&self) -> anyhow::Result<Meter> {
        self.meter_with(None)
    }

    /// Of its processes and those of another server.
    pub(super) fn meter_with(&self, other: Option<&BenchServer>) -> anyhow::Result<Meter> {
        Meter::of([Some(self), other].into_iter().flatten().flat_map(BenchServer::pids).collect())
    }

    fn pids(&self) -> impl Iterator<Item = Pid> {
        [self.pid].into_iter().chain(self.services.iter().map(|service| service.pid))
    }

    /// Takes over the services of a gateway that was killed.
    pub(super) fn beside(self, services: Vec<ServiceProcess>) -> Self {
        Self { services, ..self }
    }

    /// The services outlive their gateway.
    pub(super) async fn kill_gateway(mut self) -> anyhow::Result<Vec<ServiceProcess>> {
        self.child.kill().await.context("a gateway could not be killed")?;
        Ok(self.services)
    }

    pub(super) fn resident_kib(&self) -> anyhow::Result<f64> {
        self.pid.resident_kib()
    }

    /// Without the pages of files, which belong to the system.
    pub(super) fn own_memory_kib(&self) -> anyhow::Result<f64> {
        self.pid.own_memory_kib()
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("a server could not be stopped")
    }
}

impl ServiceProcess {
    pub(super) async fn start(command: Command) -> anyhow::Result<Self> {
        let (child, mut lines) = spawn(command)?;
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                // Older builds print `parts`.
                if matches!(line.split_whitespace().next(), Some("parts" | "services")) {
                    return Ok(());
                }
            }
            bail!("it ended before it was ready")
        };
        tokio::time::timeout(START_TIMEOUT, ready)
            .await
            .with_context(|| format!("no banner within {START_TIMEOUT:?}"))??;
        Ok(Self { pid: Pid::of(&child)?, _child: child, _stdout: lines })
    }
}

/// Standard input stays open as long as this process lives; the baseline watches it.
fn spawn(mut command: Command) -> anyhow::Result<(Child, Lines<BufReader<ChildStdout>>)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().context("the child has no standard output")?;
    Ok((child, BufReader::new(stdout).lines()))
}

impl Pid {
    pub(super) fn of(child: &Child) -> anyhow::Result<Self> {
        Ok(Self(child.id().context("the child ended at once")?))
    }

    /// A process that is not a child of the bench.
    pub(super) fn numbered(number: u32) -> Self {
        Self(number)
    }

    /// The bench itself, for baselines that run inside it.
    pub(super) fn own() -> Self {
        Self(std::process::id())
    }

    pub(super) fn meter(self) -> anyhow::Result<Meter> {
        Meter::of(vec![self])
    }

    /// Resident memory, in KiB.
    pub(super) fn resident_kib(self) -> anyhow::Result<f64> {
        self.memory_kib("VmRSS:")
    }

    /// Without the pages of files, in KiB.
    pub(super) fn own_memory_kib(self) -> anyhow::Result<f64> {
        self.memory_kib("RssAnon:")
    }

    /// Whether its parent has not reaped it yet.
    pub(super) fn is_there(self) -> bool {
        Path::new(&format!("/proc/{}", self.0)).exists()
    }

    /// SIGKILL to a process that is not a child of the bench. It may have ended just now.
    pub(super) fn kill(self) {
        let mut command = std::process::Command::new("kill");
        let _ = command.arg("-KILL").arg(self.0.to_string()).stderr(Stdio::null()).status();
    }

    fn memory_kib(self, kind: &str) -> anyhow::Result<f64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(kind));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("process {} has no {kind}", self.0))
    }

    fn cpu_seconds(self) -> anyhow::Result<f64> {
        let stat = self.proc("stat")?;
        // The second field is the program's name in parentheses, and may hold anything; count from behind it.
        let (_, fields) = stat.rsplit_once(')').context("the process has an unreadable stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(ticks.sum::<Result<f64, _>>().context("the process has an unreadable stat")? / TICKS_PER_SECOND)
    }

    fn proc(self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        std::fs::read_to_string(&path)
            .with_context(|| format!("{path} could not be read; is the server still there"))
    }
}

impl Meter {
    /// Of several processes together.
    pub(super) fn of(pids: Vec<Pid>) -> anyhow::Result<Self> {
        let cpu = total(&pids, Pid::cpu_seconds)?;
        Ok(Self { pids, cpu, since: Instant::now() })
    }

    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        Ok(total(&self.pids, Pid::cpu_seconds)? - self.cpu)
    }

    /// CPU time as thousandths of a core.
    pub(super) fn millicores(&self) -> anyhow::Result<f64> {
        Ok(self.cpu_seconds()? / self.since.elapsed().as_secs_f64() * 1_000.0)
    }

    pub(super) fn stop(self, latencies: &Latencies) -> anyhow::Result<Sample> {
        let seconds = self.since.elapsed().as_secs_f64();
        let cpu_seconds = self.cpu_seconds()?;
        Ok(Sample::new(latencies, seconds, cpu_seconds, total(&self.pids, Pid::resident_kib)?))
    }
}

/// The sum of a figure over processes.
pub(super) fn total(pids: &[Pid], figure: fn(Pid) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    pids.iter().map(|pid| figure(*pid)).sum()
}

impl BenchFolder {
    pub(super) fn new(name: &str) -> anyhow::Result<Self> {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("aund-bench-{pid}-{number}-{name}"));
        std::fs::create_dir_all(&path).with_context(|| format!("{} could not be made", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Build {
    pub(super) fn this() -> anyhow::Result<Self> {
        Ok(Self(std::env::current_exe().context("this program cannot find itself")?))
    }

    pub(super) fn at(file: &Path) -> anyhow::Result<Self> {
        let found = std::fs::canonicalize(file);
        Ok(Self(found.with_context(|| format!("--before: {} was not found", file.display()))?))
    }

    pub(super) fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

/// Waits for the lines that say where the server listens, without TLS and with it.
async fn banner(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<(BenchEndpoint, BenchEndpoint)> {
    let (mut plain, mut tls) = (None, None);
    while let Some(line) = lines.next_line().await? {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("plain"), Some(url)) => plain = Some(BenchEndpoint::new(url, Transport::Plain)?),
            (Some("gateway"), Some(url)) => tls = Some(BenchEndpoint::new(url, Transport::Tls)?),
            _ => continue,
        }
        if let (Some(plain), Some(tls)) = (plain.clone(), tls.clone()) {
            return Ok((plain, tls));
        }
    }
    bail!("it ended before it printed where it listens")
}

/// The last lines of a server's log.
pub(super) fn tail(log: &Path) -> String {
    const LINES: usize = 20;
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
