//! `aund agents publish` and `unpublish`: what an agent of this machine says about itself.

use crate::agent_args::{AgentArgs, chosen};
use crate::show::printable_line;
use anyhow::Context as _;
use clap::Args;
use client::{Error, Home, LocalAgent, PublishCondition};
use kernel::agent_md::{AgentMd, FrontMatter, Visibility};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct PublishCommand {
    /// Markdown with YAML front matter; its aid names the agent
    file: PathBuf,
    /// Publish only if the agent has no agent.md yet
    #[arg(long, conflicts_with = "if_match")]
    new: bool,
    /// Publish only if the current agent.md has this ETag [default: replace any]
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    args: AgentArgs,
}

#[derive(Args)]
pub(super) struct UnpublishCommand {
    /// The agent: one of this machine [default: the only one in the folder]
    name: Option<String>,
    #[command(flatten)]
    args: AgentArgs,
}

impl PublishCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home, file) = (self.args.show(), self.args.home()?, self.file.display());
        let content = fs::read_to_string(&self.file).with_context(|| format!("{file} cannot be read"))?;
        let document = AgentMd::parse_new(&content).with_context(|| format!("{file} cannot be published"))?;
        let agent = self.args.agent(&home, &document.front.aid)?;
        let condition = match (self.if_match, self.new) {
            (Some(etag), _) => PublishCondition::IfMatch(etag),
            (None, true) => PublishCondition::IfAbsent,
            (None, false) => PublishCondition::Always,
        };
        let dialer = self.args.dialer_of(&home, &agent).await?;
        let published = client::publish_agent_md(&dialer, &agent, &content, &condition).await;
        let published = published.map_err(|error| match unmet(&condition, &error) {
            Some(sentence) => anyhow::Error::from(error).context(sentence),
            None => refusal(&self.args, &home, &agent, error),
        })?;
        let listing = listing(&document.front);
        if show.json {
            let mut answer = serde_json::to_value(&published)?;
            answer["listed"] = json!(listing.is_ok());
            show.line(&answer.to_string())?;
            return Ok(());
        }
        show.line(&format!(
            "{} {}",
            show.green("published"),
            show.bold(&printable_line(&published.agent_md_url))
        ))?;
        for warning in &published.warnings {
            show.line(&format!("{} {}", show.yellow("warning"), printable_line(&warning.message)))?;
        }
        match listing {
            Ok(()) => show.line("it will be listed: others find it with aund agents search")?,
            Err(reason) => show.line(&format!("it will not be listed: {reason}"))?,
        }
        Ok(())
    }
}

impl UnpublishCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = chosen(&self.args, &home, self.name.as_deref(), "")?;
        let dialer = self.args.dialer_of(&home, &agent).await?;
        let removed = client::unpublish_agent_md(&dialer, &agent).await;
        removed.map_err(|error| refusal(&self.args, &home, &agent, error))?;
        match show.json {
            true => show.line(&json!({ "aid": agent.aid, "removed": true }).to_string())?,
            false => show.line(&format!("{} agent.md of {}", show.green("removed"), agent.aid))?,
        }
        Ok(())
    }
}

/// What to do where the condition of a publication is not met.
fn unmet(condition: &PublishCondition, error: &Error) -> Option<&'static str> {
    match (condition, error) {
        (PublishCondition::IfAbsent, Error::HttpRefused { status: 412, .. }) => {
            Some("an agent.md already exists: publish without --new to replace it")
        }
        (PublishCondition::IfMatch(_), Error::HttpRefused { status: 412, .. }) => {
            Some("agent.md has changed: read it again, then publish with its new ETag")
        }
        _ => None,
    }
}

/// Whether a directory lists the document, or why not.
fn listing(front: &FrontMatter) -> Result<(), String> {
    match front.visibility {
        Visibility::Private => return Err("its visibility is private".to_owned()),
        Visibility::Unlisted => {
            return Err("its visibility is unlisted; agents that know its AID can still read it".to_owned());
        }
        Visibility::Public => {}
    }
    let description = front.description.as_deref().unwrap_or_default();
    let missing = [("version", front.version.is_none()), ("description", description.is_empty())];
    let missing: Vec<&str> =
        missing.into_iter().filter(|(_, missing)| *missing).map(|(name, _)| name).collect();
    match missing[..] {
        [] => Ok(()),
        _ => Err(format!("its front matter has no {}", missing.join(" and no "))),
    }
}

/// A signature that an older text had cannot be valid for this one.
fn refusal(args: &AgentArgs, home: &Home, agent: &LocalAgent, error: Error) -> anyhow::Error {
    match &error {
        Error::HttpRefused { kind, .. } if kind == "signature_invalid" => {
            let hint = "the signature in the file is not valid: remove it, and publish signs the file again";
            anyhow::Error::from(error).context(hint)
        }
        _ => args.no_session(home, agent, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_listed_if_it_is_public_and_complete() {
        let reason = |lines: &str| {
            let text = format!("---\naid: alice.aid.pub\nname: alice\ntype: agent\n{lines}---\n# alice\n");
            listing(&AgentMd::parse(&text).unwrap().front).err().unwrap_or_default()
        };
        let whole = "version: 1.0.0\ndescription: an agent\n";
        assert_eq!(reason(whole), "");
        assert_eq!(reason(&format!("{whole}visibility: public\n")), "");
        assert!(reason(&format!("{whole}visibility: private\n")).contains("private"));
        assert!(reason(&format!("{whole}visibility: unlisted\n")).contains("unlisted"));
        assert!(reason("version: 1.0.0\n").ends_with("has no description"));
        assert!(reason("").ends_with("has no version and no description"));
    }
}
