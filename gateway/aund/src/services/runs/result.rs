//! `aund runs result`: what came out of a command.

use super::caller::{RunCallerArgs, read};
use super::text::{failure, phase, word};
use crate::output;
use crate::show::{cut, printable_line};
use clap::Args;
use proto_schemas::requests::run::{self, FinalSource, RunResult};

#[derive(Args)]
pub(super) struct RunResultCommand {
    /// The id of the run
    run: String,
    /// The id of the command [default: the newest of the run]
    #[arg(long, value_name = "ID")]
    command: Option<String>,
    #[command(flatten)]
    caller: RunCallerArgs,
}

/// Marks a command without a result. The sentence is about its status.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotCompleted(pub(super) String);

impl RunResultCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let RunResultCommand { run, command, caller } = self;
        let caller = caller.caller()?;
        let answer = caller.call(&run::Result { run_id: run, command_id: command }).await?;
        if caller.show.json {
            caller.show.line(&answer.to_string())?;
        }
        let result: RunResult = read(answer)?;
        if !caller.show.json {
            // Only that of a completed command is a reply; a script may take what is on standard output for one.
            if let Some(reply) = result.reply.as_ref().filter(|_| result.completed) {
                let end = if reply.ends_with('\n') { "" } else { "\n" };
                output::print_content(&format!("{reply}{end}"))?;
            }
            notes(&result).iter().for_each(|note| caller.show.note(note));
        }
        match result.completed {
            true => Ok(()),
            false => Err(NotCompleted(not_completed(&result)).into()),
        }
    }
}

/// What has to be known about a reply.
fn notes(result: &RunResult) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(said) = result.reply.as_ref().filter(|_| !result.completed) {
        notes.push(format!("it said last: {}", cut(said)));
    }
    if let Some(response) = result.final_response.as_ref().filter(|_| result.completed) {
        if response.source == FinalSource::FallbackLastAssistant {
            notes.push("this is the last message; the back end did not mark it as its reply".to_owned());
        }
        if response.text_truncated || response.output_truncated {
            notes.push("the reply was truncated".to_owned());
        }
    }
    if result.events_capped {
        let seq = result.next_after_seq;
        notes.push(format!("the log has more events: only those up to #{seq} were read"));
    }
    if result.completed {
        notes.push(format!("{} is completed", named(result)));
    }
    notes
}

pub(super) fn not_completed(result: &RunResult) -> String {
    let what = named(result);
    let why = failure(result.failure_kind.as_deref(), result.failure_message.as_deref());
    match result.terminal_status {
        Some(status) if why.is_empty() => format!("{what} is {}", word(status)),
        Some(status) => format!("{what} is {}: {why}", word(status)),
        None => {
            format!("{what} is {}: {}", printable_line(&result.status), phase(result.liveness.phase))
        }
    }
}

/// The command, or the run if it has none.
fn named(result: &RunResult) -> String {
    printable_line(result.command_id.as_deref().unwrap_or(&result.run_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::find;
    use serde_json::{Value, json};

    fn result(change: impl Fn(&mut Value)) -> RunResult {
        let mut example = find("run.result").unwrap().doc()["examples"][0]["result"].clone();
        change(&mut example);
        serde_json::from_str(&example.to_string()).unwrap()
    }

    #[test]
    fn a_result_that_is_none_says_why() {
        let failed = result(|result| {
            result["commandId"] = json!("cmd_1");
            result["status"] = json!("failed");
            result["terminalStatus"] = json!("failed");
            result["failureKind"] = json!("backend-failed");
            result["failureMessage"] = json!("asked\x1b to fail");
        });
        assert_eq!(not_completed(&failed), "cmd_1 is failed: backend-failed: asked\\u001b to fail");
        let open = result(|result| {
            result["commandId"] = json!("cmd_1");
            result["status"] = json!("pending");
            result["terminalStatus"] = Value::Null;
            result["liveness"]["phase"] = json!("waiting-runner");
        });
        assert_eq!(not_completed(&open), "cmd_1 is pending: no runner has taken it yet");
    }

    #[test]
    fn what_was_said_before_the_end_is_no_reply() {
        let failed = result(|result| {
            result["completed"] = json!(false);
            result["reply"] = json!("Ber");
        });
        assert_eq!(notes(&failed), ["it said last: Ber"]);
    }

    #[test]
    fn what_limits_a_reply_is_said() {
        let cut = result(|result| {
            result["commandId"] = json!("cmd_1");
            result["completed"] = json!(true);
            result["eventsCapped"] = json!(true);
            result["nextAfterSeq"] = json!(100_000);
            result["finalResponse"] = json!({ "text": "a", "seq": 7, "source": "fallback-last-assistant",
                "final": false, "replyAuthority": false, "textTruncated": true, "outputTruncated": false });
        });
        assert_eq!(
            notes(&cut),
            [
                "this is the last message; the back end did not mark it as its reply",
                "the reply was truncated",
                "the log has more events: only those up to #100000 were read",
                "cmd_1 is completed",
            ]
        );
    }
}
