//! Whether Bubblewrap works on this machine: it needs namespaces, which not everybody may make.

use anyhow::bail;
use proto_schemas::requests::run::RunnerIsolation;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long it may take to start nothing.
const WITHIN: Duration = Duration::from_secs(10);

/// How back ends are isolated: as it is wanted, or else as well as it goes.
pub(super) async fn found(wanted: Option<RunnerIsolation>) -> anyhow::Result<RunnerIsolation> {
    if wanted == Some(RunnerIsolation::None) {
        return Ok(RunnerIsolation::None);
    }
    match (works().await, wanted) {
        (true, _) => Ok(RunnerIsolation::Bwrap),
        (false, None) => Ok(RunnerIsolation::None),
        (false, Some(_)) => {
            bail!(
                "run.runner.isolation: bwrap does not work here; try `bwrap --ro-bind / / --unshare-pid true`"
            )
        }
    }
}

async fn works() -> bool {
    let mut command = Command::new("bwrap");
    command.args(["--die-with-parent", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev"]);
    command.args(["--proc", "/proc", "--", "true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let ended = timeout(WITHIN, command.status()).await;
    matches!(ended, Ok(Ok(status)) if status.success())
}
