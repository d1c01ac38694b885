//! A real server with a tenant, its runs, and the runners that work on them.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::agent::{BenchEndpoint, Transport};
use crate::process::{BenchFolder, BenchServer, Build, CONFIG};

use super::events::AppendWriter;
use super::http::{ApiAnswer, ApiConnection, number, text};

pub(super) const TENANT: &str = "bench";

/// The profile that needs no credential.
pub(super) const PROFILE: &str = "example";

/// The first belongs to the limits at the end of `CONFIG`: a caller has more streams than anybody needs otherwise.
const SETTINGS: &str = "streams_per_caller = 100000\n\n[run.tenants.bench]\n";

/// "5 to 600 seconds". After it the lease is still that of its runner as long as nobody else claims the run.
const LEASE_MS: u64 = 600_000;

/// A server, and the token of its tenant.
pub(super) struct RunServer {
    pub(super) server: BenchServer,
    pub(super) folder: BenchFolder,
    pub(super) token: String,
}

/// A run with one turn, and a runner job for it.
pub(super) struct RunJob {
    pub(super) run: String,
    pub(super) command: String,
    attempt: String,
    /// Of its runners.
    pub(super) token: String,
}

impl RunServer {
    pub(super) async fn start(name: &str) -> anyhow::Result<Self> {
        let folder = BenchFolder::new(name)?;
        let server = aund(&folder).await?;
        let token = tenant_token(&folder).await?;
        Ok(Self { server, folder, token })
    }

    /// A fresh process on the same store. Its tokens outlive the process that issued them.
    pub(super) async fn restarted(self) -> anyhow::Result<Self> {
        let Self { server, folder, token } = self;
        server.stop().await?;
        Ok(Self { server: aund(&folder).await?, folder, token })
    }

    pub(super) fn endpoint(&self) -> &BenchEndpoint {
        self.server.endpoint(Transport::Plain)
    }

    pub(super) async fn connect(&self) -> anyhow::Result<ApiConnection> {
        ApiConnection::open(self.endpoint()).await
    }

    /// A run that nobody has claimed.
    pub(super) async fn job(&self, api: &mut ApiConnection) -> anyhow::Result<RunJob> {
        let new = json!({
            "tenantId": TENANT, "projectId": "acme/site", "workspaceRef": {}, "providerId": "local",
            "backendProfile": PROFILE, "traceSink": null,
        });
        let run = text(&api.call("POST", "/runs", &self.token, &new).await?, "runId")?;
        let turn = json!({ "type": "turn", "payload": { "prompt": "What is the capital of Germany?" } });
        let path = format!("/runs/{run}/commands");
        let command = text(&api.call("POST", &path, &self.token, &turn).await?, "commandId")?;
        let new = json!({ "commandId": command, "launcher": "external" });
        let job = api.call("POST", &format!("/runs/{run}/runner-jobs"), &self.token, &new).await?;
        let (attempt, token) = (text(&job, "attemptId")?, text(&job, "runnerToken")?);
        Ok(RunJob { run, command, attempt, token })
    }

    /// What appends events to a new run: a runner that has its lease and works on its turn.
    pub(super) async fn working(&self, api: &mut ApiConnection) -> anyhow::Result<AppendWriter> {
        let job = self.job(api).await?;
        let runner = job.register(api).await?;
        let claimed = api.call("POST", &job.claim_path(), &job.token, &job.claim(&runner)).await?;
        let epoch = epoch(&claimed)?;
        let taken = json!({ "runnerId": runner, "epoch": epoch });
        api.call("POST", &format!("/commands/{}/ack", job.command), &job.token, &taken).await?;
        let RunJob { run, command, token, .. } = job;
        Ok(AppendWriter { run, command, token, runner, epoch, written: 0 })
    }
}

impl RunJob {
    /// The id of another runner.
    pub(super) async fn register(&self, api: &mut ApiConnection) -> anyhow::Result<String> {
        let runner = json!({ "backendProfile": PROFILE, "placement": "host-process" });
        text(&api.call("POST", "/runners/register", &self.token, &runner).await?, "runnerId")
    }

    pub(super) fn claim_path(&self) -> String {
        format!("/runs/{}/claim", self.run)
    }

    pub(super) fn claim(&self, runner: &str) -> Value {
        json!({ "runnerId": runner, "attemptId": self.attempt, "leaseMs": LEASE_MS })
    }
}

/// The epoch of a lease that was claimed.
pub(super) fn epoch(claimed: &Value) -> anyhow::Result<i64> {
    number(&claimed["lease"], "epoch")
}

/// The last seq of a run after an append.
pub(super) fn last_seq(appended: &ApiAnswer) -> anyhow::Result<u64> {
    Ok(u64::try_from(number(&appended.data()?, "lastSeq")?)?)
}

async fn aund(folder: &BenchFolder) -> anyhow::Result<BenchServer> {
    BenchServer::aund_with(&Build::this()?, folder, None, &format!("{CONFIG}{SETTINGS}")).await
}

/// As the operator creates it.
pub(super) async fn tenant_token(folder: &BenchFolder) -> anyhow::Result<String> {
    let mut command = Build::this()?.command();
    command.args(["runs", "token", TENANT, "--data"]).arg(folder.file("data"));
    let output = command.output().await.context("aund runs token could not be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "aund runs token failed: {said}");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
