//! `aund agent manifest diff`: what breaks and why.

use super::read;
use crate::show::{Show, printable_line};
use anyhow::Context as _;
use clap::Args;
use manifest::{ChangeReason, Manifest, compare};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct DiffManifestsCommand {
    /// The manifest that users have consented to
    old: PathBuf,
    /// The manifest that would replace it
    new: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// Print without colours
    #[arg(long)]
    plain: bool,
}

/// Ends the command with an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("breaking change: every active user is asked to grant {0}")]
pub(crate) struct BreakingChange(String);

impl DiffManifestsCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let show = Show::new(self.json, self.plain);
        let (old, new) = (acceptable(&self.old)?, acceptable(&self.new)?);
        let comparison = compare(&old, &new);
        if show.json {
            let mut answer = serde_json::to_value(&comparison)?;
            answer["breaking"] = json!(comparison.breaking());
            show.line(&answer.to_string())?;
        } else {
            for reason in &comparison.reasons {
                show.line(&in_a_line(reason, show))?;
            }
            if comparison.reasons.is_empty() {
                show.line("nothing changed")?;
            }
        }
        if comparison.breaking() {
            return Err(BreakingChange(comparison.scopes_requiring_reauth.join(", ")).into());
        }
        Ok(())
    }
}

fn acceptable(file: &Path) -> anyhow::Result<Manifest> {
    read(file)?.with_context(|| format!("{}: see aund agent manifest check", file.display()))
}

fn in_a_line(reason: &ChangeReason, show: Show) -> String {
    let kind = if reason.breaking { show.yellow("breaking") } else { show.dim("harmless") };
    let subject = [&reason.tool, &reason.path, &reason.scope].map(|part| part.as_deref().map(printable_line));
    let subject: Vec<String> = subject.into_iter().flatten().collect();
    let space = if subject.is_empty() { "" } else { " " };
    format!("{kind} {:<4} {}{space}{}", reason.rule, show.bold(&subject.join(" ")), sentence(reason.rule))
}

/// The rules of the protocol in a few words each.
fn sentence(rule: &str) -> &'static str {
    match rule {
        "R1" => "is required now",
        "R2" => "has another type",
        "R3" => "now refuses undeclared properties",
        "R3b" => "now restricts undeclared properties",
        "R3c" => "allows more properties",
        "R4" => "no longer allows a value",
        "R4b" => "now has a list of allowed values",
        "R4c" => "allows more values",
        "R5" => "is more sensitive",
        "R6" => "is a new scope",
        "R7" => "was removed",
        "R8" => "is a new tool in an existing scope",
        "R9" => "now requires its scope to be granted",
        _ => "has another change that needs no consent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_line() {
        let reason = ChangeReason {
            rule: "R1",
            breaking: true,
            tool: Some("read_file".to_owned()),
            path: Some("/input_schema/properties/encoding".to_owned()),
            scope: Some("filesystem:read".to_owned()),
        };
        let line = in_a_line(&reason, Show::new(false, true));
        assert_eq!(
            line,
            "breaking R1   read_file /input_schema/properties/encoding filesystem:read is required now"
        );
        let bare = ChangeReason { rule: "R10", breaking: false, tool: None, path: None, scope: None };
        assert_eq!(
            in_a_line(&bare, Show::new(false, true)),
            "harmless R10  has another change that needs no consent"
        );
    }
}
