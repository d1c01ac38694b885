//! A server of the demo's own: this same program, on a free port, in a folder that is removed at the end.

use anyhow::{Context as _, bail};
use client::GatewayUrl;
use kernel::{Ids, files};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// How long a first start may take, keys of an authority included.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A folder that is removed with everything in it.
pub(super) struct DemoFolder(PathBuf);

/// It ends when this is dropped, with the runners that it has started.
pub(super) struct DemoServer {
    pub gateway: GatewayUrl,
    pub root: PathBuf,
    data: PathBuf,
    child: Child,
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl DemoFolder {
    pub fn new() -> anyhow::Result<DemoFolder> {
        let folder = std::env::temp_dir().join(Ids::default().tagged("aund-demo"));
        files::make_folder(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        Ok(DemoFolder(folder))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl DemoServer {
    pub async fn start(folder: &DemoFolder) -> anyhow::Result<DemoServer> {
        let (data, log) = (folder.path("data"), folder.path("aund.log"));
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?).kill_on_drop(true);
        let mut child = command.spawn().context("the demo's gateway cannot be started")?;
        let stdout = child.stdout.take().context("the demo's gateway has no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let gateway =
            timeout(START_TIMEOUT, banner(&mut lines)).await.context("the demo's gateway is not ready")?;
        let gateway = gateway.with_context(|| {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines().last().unwrap_or("the demo's gateway printed nothing").to_owned()
        })?;
        Ok(DemoServer { gateway, root: data.join("pki/root.crt"), data, child, _stdout: lines })
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        kill_runners(&self.data);
    }
}

/// Ends the processes that have their home below a folder: runners outlive their server, and would look for this one for two hours. Where
/// the system does not show the environment of processes, nothing is ended.
fn kill_runners(data: &Path) {
    let home = format!("HOME={}/", data.display());
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(home.as_bytes())) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The line of the banner that says where the server listens.
async fn banner(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<GatewayUrl> {
    while let Some(line) = lines.next_line().await? {
        if let Some(url) = line.trim().strip_prefix("gateway ") {
            return url.trim().parse().map_err(anyhow::Error::msg);
        }
    }
    bail!("the demo's gateway did not start")
}
