//! `aund runs cancel`: end a run, or one of its commands.

use super::caller::RunCallerArgs;
use super::text::{state, word};
use crate::show::printable_line;
use anyhow::bail;
use clap::Args;
use proto_schemas::requests::run::{Cancel, CommandCancel, TerminalStatus};

#[derive(Args)]
pub(super) struct CancelRunCommand {
    /// The id of a run (run_…) or of a command (cmd_…)
    #[arg(value_name = "RUN|COMMAND")]
    id: String,
    /// The reason, stored with the cancellation
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    caller: RunCallerArgs,
}

impl CancelRunCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let CancelRunCommand { id, reason, caller } = self;
        let caller = caller.caller()?;
        let show = caller.show;
        let (answer, status, terminal) = if id.starts_with("run_") {
            let answer = caller.ask(&Cancel { run_id: id.clone(), reason }).await?;
            let (status, terminal) = (word(answer.run.status), answer.run.terminal_status);
            (serde_json::to_string(&answer)?, status, terminal)
        } else if id.starts_with("cmd_") {
            let answer = caller.ask(&CommandCancel { command_id: id.clone(), reason }).await?;
            let (status, terminal) = (word(answer.command.state), answer.command.terminal_status);
            (serde_json::to_string(&answer)?, status, terminal)
        } else {
            bail!("{id:?} is neither a run (run_…) nor a command (cmd_…)");
        };
        if show.json {
            return Ok(show.line(&answer)?);
        }
        let what = match terminal {
            Some(TerminalStatus::Cancelled) => "",
            Some(_) => "  (it had ended before)",
            None => {
                "  (its runner was asked to stop; it is cancelled when the runner confirms, or its lease expires)"
            }
        };
        Ok(show.line(&format!("{}  {}{what}", state(&show, &status).trim_end(), printable_line(&id)))?)
    }
}
