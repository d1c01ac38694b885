//! Who asks about runs: the operator, through the socket in the data folder, or an agent of this machine.

use crate::agent_args::{AgentArgs, result};
use crate::show::Show;
use anyhow::Context as _;
use clap::Args;
use client::{Client, Home, LocalAgent};
use gateway::admin;
use kernel::Ids;
use proto_schemas::Request;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct RunCallerArgs {
    /// Call as this agent of yours, which must act for the tenant [default: as the operator of the server]
    #[arg(long = "as", value_name = "NAME")]
    asking: Option<String>,
    /// The data folder of the server, or of its run process
    #[arg(long, value_name = "DIR", default_value = "./data", conflicts_with = "asking")]
    data: PathBuf,
    #[command(flatten)]
    args: AgentArgs,
}

/// For what only the operator may do.
#[derive(Args)]
pub(super) struct OperatorArgs {
    /// The data folder of the server, or of its run process
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

pub(super) struct RunCaller {
    args: AgentArgs,
    data: PathBuf,
    agent: Option<CallingLocalAgent>,
    pub show: Show,
}

struct CallingLocalAgent {
    home: Home,
    agent: LocalAgent,
}

impl RunCallerArgs {
    pub fn caller(self) -> anyhow::Result<RunCaller> {
        let RunCallerArgs { asking, data, args } = self;
        let agent = match asking {
            Some(name) => {
                let home = args.home()?;
                let agent = args.agent(&home, &name)?;
                Some(CallingLocalAgent { home, agent })
            }
            None => None,
        };
        Ok(RunCaller { show: args.show(), args, data, agent })
    }
}

impl OperatorArgs {
    /// The answer as its type, and as it came.
    pub async fn ask<R: Request>(&self, request: &R) -> anyhow::Result<(R::Result, Value)> {
        let answer = ask_operator(&self.data, request).await?;
        Ok((read(answer.clone())?, answer))
    }
}

impl RunCaller {
    /// The answer as it came. All these calls are safe to repeat.
    pub async fn call<R: Request>(&self, request: &R) -> anyhow::Result<Value> {
        let Some(CallingLocalAgent { home, agent }) = &self.agent else {
            return ask_operator(&self.data, request).await;
        };
        let params = serde_json::to_value(request)?;
        result(self.args.call_again_while_full(home, agent, R::METHOD, &params).await?, self.show)
    }

    /// The answer as its type.
    pub async fn ask<R: Request>(&self, request: &R) -> anyhow::Result<R::Result> {
        read(self.call(request).await?)
    }

    /// Where the root certificate of the server is, if this is its machine.
    pub fn root(&self) -> PathBuf {
        self.data.join("pki/root.crt")
    }

    /// A client that gets events, in a slot of its own: it replaces no other one of this agent. The operator has none.
    pub async fn client(&self) -> anyhow::Result<Option<Client>> {
        let Some(CallingLocalAgent { home, agent }) = &self.agent else { return Ok(None) };
        let slot = format!("runs-{}", hex::encode(Ids::default().bytes::<6>()));
        self.args.client_of_slot(home, agent, &slot).await.map(Some)
    }
}

async fn ask_operator<R: Request>(data: &Path, request: &R) -> anyhow::Result<Value> {
    let answer = admin::ask(data, R::METHOD, &serde_json::to_value(request)?).await?;
    answer.with_context(|| format!("no server runs on {}", data.display()))
}

pub(super) fn read<T: DeserializeOwned>(answer: Value) -> anyhow::Result<T> {
    serde_json::from_value(answer).context("the server's answer has an unexpected form")
}
