//! `aund tool decide`: one call, decided as the client library decides it.

use super::terminal::TerminalPrompt;
use crate::agent_args::AskingArgs;
use crate::show::Show;
use anyhow::{Context as _, ensure};
use clap::Args;
use client::tools::{
    ConsentPrompt, ConsentQuestion, ConsentReply, IgnoredCall, ReceivedToolCall, ToolDecision, ToolGrant,
    ToolOutcome, ToolPolicy,
};
use manifest::Manifest;
use serde_json::{Map, Value};
use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;

/// A message has 1 MiB at most, and what surrounds it is small.
const LARGEST_INPUT: u64 = 2 << 20;

#[derive(Args)]
pub(super) struct DecideCommand {
    /// The manifest of the agent that calls, as JSON
    #[arg(long, value_name = "FILE")]
    manifest: PathBuf,
    /// A scope that the user granted to the agent; repeatable
    #[arg(long, value_name = "SCOPE")]
    granted: Vec<String>,
    /// Confirm without asking
    #[arg(long, conflicts_with = "no")]
    yes: bool,
    /// Refuse without asking
    #[arg(long)]
    no: bool,
    /// The tool's result, if the call is permitted [default: the device does not have the tool]
    #[arg(long, value_name = "JSON", value_parser = object)]
    result: Option<Map<String, Value>>,
    #[command(flatten)]
    asking: AskingArgs,
}

/// A reply that was given before the question.
struct FixedReply(ConsentReply);

impl ConsentPrompt for FixedReply {
    fn ask(&mut self, _: &ConsentQuestion<'_>) -> ConsentReply {
        self.0
    }
}

impl DecideCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.asking.args.show(), self.asking.args.home()?);
        let agent = self.asking.agent(&home)?;
        let file = self.manifest.display();
        let text = fs::read_to_string(&self.manifest).with_context(|| format!("{file} cannot be read"))?;
        let manifest =
            Manifest::parse(&text).with_context(|| format!("{file}: see aund agent manifest check"))?;
        let message: Value =
            serde_json::from_str(&standard_input()?).context("standard input is not JSON")?;
        let call =
            ReceivedToolCall::read(&message)?.context("standard input has no message with a tool call")?;

        let policy = ToolPolicy::of(&agent);
        let grant = ToolGrant { manifest: &manifest, granted: &self.granted };
        let mut prompt: Box<dyn ConsentPrompt> = match (self.yes, self.no) {
            (true, _) => Box::new(FixedReply(ConsentReply::Confirmed)),
            (_, true) => Box::new(FixedReply(ConsentReply::Refused)),
            _ => Box::new(TerminalPrompt),
        };
        let answer = match policy.decide(&call, &grant, &mut *prompt)? {
            ToolDecision::Permitted(permitted) => {
                let outcome = self.result.map_or_else(ToolOutcome::unavailable, ToolOutcome::Ok);
                policy.finish(permitted, outcome)?
            }
            ToolDecision::Answered(answer) => answer,
            ToolDecision::Ignored(why) => {
                note(show, why);
                return Ok(());
            }
        };
        show.line(&answer.payload().to_string())?;
        Ok(())
    }
}

/// Nothing is on standard output, because the agent is told nothing.
fn note(show: Show, why: IgnoredCall) {
    show.note(match why {
        IgnoredCall::Disguised => "no answer: the envelope does not say that this is a tool call",
        IgnoredCall::Duplicate => "no answer: this call was already decided",
    });
}

fn standard_input() -> anyhow::Result<String> {
    let mut text = String::new();
    io::stdin().take(LARGEST_INPUT + 1).read_to_string(&mut text).context("standard input is not text")?;
    ensure!(text.len() as u64 <= LARGEST_INPUT, "standard input has over {LARGEST_INPUT} bytes");
    Ok(text)
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("--result must be a JSON object, such as {{\"content\":\"…\"}}: {error}"))
}
