//! `aund runs steer`: guidance for the turn that a run is working on.

use super::caller::RunCallerArgs;
use crate::show::printable_line;
use clap::Args;
use kernel::Ids;
use proto_schemas::requests::run::{CommandCreate, CommandType};
use serde_json::json;
use serde_json::value::to_raw_value;

#[derive(Args)]
pub(super) struct SteerRunCommand {
    /// The id of the run
    run: String,
    /// The guidance
    text: String,
    #[command(flatten)]
    caller: RunCallerArgs,
}

impl SteerRunCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let SteerRunCommand { run: run_id, text, caller } = self;
        let caller = caller.caller()?;
        let show = caller.show;
        let steer = CommandCreate {
            run_id,
            kind: CommandType::Steer,
            payload: to_raw_value(&json!({ "text": text }))?,
            idempotency_key: Some(hex::encode(Ids::default().bytes::<16>())),
        };
        let created = caller.ask(&steer).await?;
        if show.json {
            return Ok(show.line(&serde_json::to_string(&created)?)?);
        }
        let id = printable_line(&created.command.command_id);
        let target = created.command.target_command_id.as_deref().map(printable_line);
        let target = target.map_or_else(String::new, |target| format!("  for {target}"));
        Ok(show.line(&format!("{}  {id}{target}", show.cyan("sent")))?)
    }
}
