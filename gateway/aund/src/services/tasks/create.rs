//! `aund tasks create` and `delegate`: new tasks.

use super::caller::{TaskCaller, new_key, read, task_id};
use super::watch::watch;
use crate::agent_args::AskingArgs;
use crate::show::printable_line;
use anyhow::{Context as _, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use proto_schemas::requests::task::{
    Create, CreatedTask, Delegate, DelegatedTask, IdempotencyKey, TaskId, TaskTitle, TaskVisibility,
};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Args)]
pub(super) struct CreateTaskCommand {
    /// The assignee: a name in the caller's domain, or a full AID
    #[arg(long, value_name = "AID")]
    to: String,
    /// A one-line title
    #[arg(long, value_name = "TEXT")]
    title: Option<TaskTitle>,
    /// What to do: a text, @FILE, or - for standard input [default: the title]
    #[arg(long, value_name = "TEXT|@FILE|-", required_unless_present = "title")]
    input: Option<InputText>,
    /// Who may read it: its participants, all participants of its tree, or every agent
    #[arg(long, value_name = "WHO", default_value = "private", value_parser = visibilities())]
    visibility: TaskVisibility,
    /// Another agent that may read it and add input; repeatable
    #[arg(long, value_name = "AID")]
    participant: Vec<String>,
    /// Cancel the task if it is not accepted within this time [default: 7 days]
    #[arg(long, value_name = "SECONDS")]
    accept_timeout: Option<i64>,
    /// Idempotency key, valid for 24 hours
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<IdempotencyKey>,
    /// Show its progress until it ends; fail unless it is completed
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    asking: AskingArgs,
}

#[derive(Args)]
pub(super) struct DelegateTaskCommand {
    /// The id of the parent task, which is assigned to you
    task: TaskId,
    /// The assignee: a name in the caller's domain, or a full AID
    #[arg(long, value_name = "AID")]
    to: String,
    /// What to do: a text, @FILE, or - for standard input
    #[arg(long, value_name = "TEXT|@FILE|-")]
    input: InputText,
    /// Optional: cancelled if the parent completes first
    #[arg(long)]
    optional: bool,
    #[command(flatten)]
    asking: AskingArgs,
}

/// A text, or where it is read from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum InputText {
    Given(String),
    File(PathBuf),
    StandardInput,
}

impl FromStr for InputText {
    type Err = String;

    fn from_str(text: &str) -> Result<InputText, String> {
        Ok(match text.strip_prefix('@') {
            Some("") => return Err("the file name after @ is missing".to_owned()),
            Some(file) => InputText::File(PathBuf::from(file)),
            None if text == "-" => InputText::StandardInput,
            None => InputText::Given(text.to_owned()),
        })
    }
}

impl InputText {
    /// The text as a content block.
    pub fn block(self) -> anyhow::Result<Box<RawValue>> {
        let text = match self {
            InputText::Given(text) => text,
            InputText::File(file) => {
                let text = fs::read_to_string(&file);
                text.with_context(|| format!("{} cannot be read as text", file.display()))?
            }
            InputText::StandardInput => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("standard input is not text")?;
                text
            }
        };
        Ok(to_raw_value(&json!({ "type": "text", "content": text.trim_end_matches('\n') }))?)
    }
}

fn visibilities() -> impl TypedValueParser<Value = TaskVisibility> {
    let words = PossibleValuesParser::new(TaskVisibility::ALL.map(TaskVisibility::as_str));
    words.try_map(|word| TaskVisibility::parse(&word).ok_or("it is none of them"))
}

impl CreateTaskCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let caller = TaskCaller::new(self.asking)?;
        let title = || self.title.clone().map(TaskTitle::into_text).map(InputText::Given);
        let input = self.input.or_else(title);
        let create = Create {
            to: caller.aid(&self.to)?,
            input: input.context("--input is required: it says what to do")?.block()?,
            visibility: Some(self.visibility),
            title: self.title,
            participants: Some(caller.aids(&self.participant)?),
            idempotency_key: Some(self.idempotency_key.map_or_else(new_key, Ok)?),
            accept_timeout_s: self.accept_timeout,
            metadata: None,
        };
        let answer = caller.call(&create).await?;
        let created: CreatedTask = read(answer.clone())?;
        let (status, id) = (printable_line(&created.status), printable_line(&created.task_id));
        let to = printable_line(&created.assignee);
        let again = if created.duplicate == Some(true) { " before" } else { "" };
        let line = format!("{}{again} to {to}  {}", caller.show.green(&status), caller.show.dim(&id));
        caller.tell(&answer, &line)?;
        if !self.wait {
            return Ok(());
        }
        let ended = watch(&caller, vec![task_id(&created.task_id)?]).await?;
        match ended.first().map(|task| (task.status.as_str(), &task.reason)) {
            Some(("completed", _)) => Ok(()),
            Some((status, Some(reason))) => bail!("the task was {status}: {}", printable_line(reason)),
            Some((status, None)) => bail!("the task was {status}"),
            None => bail!("interrupted before the task ended"),
        }
    }
}

impl DelegateTaskCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let caller = TaskCaller::new(self.asking)?;
        let delegate = Delegate {
            task_id: self.task,
            to: caller.aid(&self.to)?,
            input: self.input.block()?,
            required: Some(!self.optional),
            visibility: None,
            idempotency_key: None,
            request_id: Some(new_key()?),
            expected_version: None,
        };
        let answer = caller.call(&delegate).await?;
        let created: DelegatedTask = read(answer.clone())?;
        let (status, id) = (printable_line(&created.status), printable_line(&created.task_id));
        let to = printable_line(&created.assignee);
        caller.tell(&answer, &format!("{} to {to}  {}", caller.show.green(&status), caller.show.dim(&id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_text_or_a_file_or_standard_input() {
        let read = |text: &str| text.parse::<InputText>();
        assert_eq!(read("please"), Ok(InputText::Given("please".to_owned())));
        assert_eq!(read("@a/b.md"), Ok(InputText::File(PathBuf::from("a/b.md"))));
        assert_eq!(read("-"), Ok(InputText::StandardInput));
        assert!(read("@").is_err());
        let block = read("please\n").unwrap().block().unwrap();
        assert_eq!(block.get(), r#"{"content":"please","type":"text"}"#);
        let missing = read("@nothing-of-this-name").unwrap().block().unwrap_err().to_string();
        assert_eq!(missing, "nothing-of-this-name cannot be read as text");
    }
}
