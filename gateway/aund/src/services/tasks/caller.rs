//! The agent of this machine that calls, and how it is answered.

use crate::agent_args::{AskingArgs, result};
use crate::show::Show;
use anyhow::Context as _;
use client::{Aid, Client, Error, Home, LocalAgent};
use kernel::{Clock, Ids};
use proto_schemas::Request;
use proto_schemas::requests::task::TaskId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) struct TaskCaller {
    asking: AskingArgs,
    home: Home,
    pub agent: LocalAgent,
    pub show: Show,
}

impl TaskCaller {
    pub fn new(asking: AskingArgs) -> anyhow::Result<TaskCaller> {
        let (show, home) = (asking.args.show(), asking.args.home()?);
        let agent = asking.agent(&home)?;
        Ok(TaskCaller { asking, home, agent, show })
    }

    /// The answer as it came. Only for calls that are safe to repeat: those that read, and those with a key of their own.
    pub async fn call<R: Request>(&self, request: &R) -> anyhow::Result<Value> {
        result(self.answer(request).await?, self.show)
    }

    /// The same with a refusal as the caller of this wants to explain it.
    pub async fn answer<R: Request>(&self, request: &R) -> anyhow::Result<Result<Value, Error>> {
        let params = serde_json::to_value(request)?;
        self.asking.args.call_again_while_full(&self.home, &self.agent, R::METHOD, &params).await
    }

    /// The answer as its type.
    pub async fn ask<R: Request>(&self, request: &R) -> anyhow::Result<R::Result> {
        read(self.call(request).await?)
    }

    /// A client that gets events, in a slot of its own: it replaces no other one of this agent.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let slot = format!("tasks-{}", hex::encode(Ids::default().bytes::<6>()));
        self.asking.args.client_of_slot(&self.home, &self.agent, &slot).await
    }

    /// A name without a domain is one of the caller's domain.
    pub fn aid(&self, name: &str) -> anyhow::Result<Aid> {
        let whole = match name.contains('.') {
            true => name.to_owned(),
            false => format!("{name}.{}", self.agent.aid.issuer()),
        };
        Aid::parse(&whole).with_context(|| format!("{name} is not an agent name"))
    }

    pub fn aids(&self, names: &[String]) -> anyhow::Result<Vec<Aid>> {
        names.iter().map(|name| self.aid(name)).collect()
    }

    /// With --json the answer, otherwise a line for people.
    pub fn tell(&self, answer: &impl Serialize, line: &str) -> anyhow::Result<()> {
        match self.show.json {
            true => self.show.line(&serde_json::to_string(answer)?)?,
            false => self.show.line(line)?,
        }
        Ok(())
    }
}

/// A key with which a call may be sent again and takes effect once.
pub(super) fn new_key<K: TryFrom<String, Error = String>>() -> anyhow::Result<K> {
    Ids::default().time_ordered(Clock::System.now_ms()).try_into().map_err(anyhow::Error::msg)
}

/// The id of a task that the server has named.
pub(super) fn task_id(text: &str) -> anyhow::Result<TaskId> {
    text.parse().map_err(anyhow::Error::msg)
}

pub(super) fn read<T: DeserializeOwned>(answer: Value) -> anyhow::Result<T> {
    serde_json::from_value(answer).context("the server's answer has an unexpected form")
}
