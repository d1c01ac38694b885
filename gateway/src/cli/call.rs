//! `aund call`: any method, called as an agent.

use super::agent_args::AgentArgs;
use super::show::Show;
use clap::Args;
use client::Error;
use serde_json::{Value, json};

#[derive(Args)]
pub(super) struct CallCommand {
    /// Who calls: an agent of this machine
    name: String,
    /// What is called, such as meta.ping; aund schema prints them all
    method: String,
    /// Its parameters
    #[arg(value_name = "JSON", default_value = "{}", value_parser = params)]
    params: Value,
    #[command(flatten)]
    args: AgentArgs,
}

impl CallCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = self.args.agent(&home, &self.name)?;
        let connection = self.args.connect(&home, &agent).await?;
        let result = result(connection.call(&self.method, &self.params).await, show)?;
        connection.close().await;
        let text = if show.json { result.to_string() } else { serde_json::to_string_pretty(&result)? };
        show.line(&text)?;
        Ok(())
    }
}

/// With --json the error goes to standard output, where a program reads the result; the sentence is for people.
pub(super) fn result(answer: Result<Value, Error>, show: Show) -> anyhow::Result<Value> {
    if let (Err(Error::Refused { error, .. }), true) = (&answer, show.json) {
        show.line(&json!({ "error": error }).to_string())?;
    }
    Ok(answer?)
}

fn params(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(params @ Value::Object(_)) => Ok(params),
        Ok(_) => Err("parameters are an object, such as {\"seq\":1}".to_owned()),
        Err(error) => Err(format!("this is not JSON: {error}")),
    }
}
