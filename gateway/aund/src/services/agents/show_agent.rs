//! `aund agents show`: what an agent says about itself.

use crate::agent_args::{ReadingArgs, result};
use crate::show::{Show, printable, printable_line};
use anyhow::{Context as _, bail};
use clap::Args;
use client::{Aid, LocalAgent};
use proto_schemas::Request as _;
use proto_schemas::requests::search::{FoundAgent, GetAgent};
use std::collections::BTreeSet;

#[derive(Args)]
pub(super) struct ShowAgentCommand {
    /// The agent: a name in the caller's domain, or a full AID
    aid: String,
    #[command(flatten)]
    reading: ReadingArgs,
}

impl ShowAgentCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.reading.args.show(), self.reading.args.home()?);
        let agents = self.reading.agents(&home)?;
        let whole = whole_aid(&self.aid, &agents)?;
        let wanted = GetAgent { aid: Aid::parse(&whole)? };
        let params = serde_json::to_value(&wanted)?;
        let answer = self.reading.call(&home, &agents, GetAgent::METHOD, &params).await?;
        let answer = result(answer, show)?;
        if show.json {
            show.line(&answer.to_string())?;
            return Ok(());
        }
        let found: FoundAgent =
            serde_json::from_value(answer).context("the server's answer has an unexpected form")?;
        show.line(&text(&show, &found))?;
        Ok(())
    }
}

/// The AID of a name in the domain of the agents that may ask.
fn whole_aid(name: &str, asking: &[LocalAgent]) -> anyhow::Result<String> {
    let domains: BTreeSet<&str> = asking.iter().map(|agent| agent.aid.issuer()).collect();
    let named: Vec<String> = domains.into_iter().map(|domain| format!("{name}.{domain}")).collect();
    match &named[..] {
        _ if name.contains('.') => Ok(name.to_owned()),
        [whole] => Ok(whole.clone()),
        several => bail!("there are agents of several domains, say which: {}", several.join(" or ")),
    }
}

/// A line about the document, and the document without its signatures.
fn text(show: &Show, found: &FoundAgent) -> String {
    let (aid, source) = (printable_line(&found.aid), printable_line(&found.source_ap));
    let signed = if found.signed { show.green("signed") } else { show.dim("not signed") };
    let when = show.dim(&format!("{} from {source}", printable_line(&found.updated_at)));
    let end = found.agent_md.find("<!-- AUN-SIGNATURE").unwrap_or(found.agent_md.len());
    let document: Vec<String> = found.agent_md[..end].trim_end().lines().map(printable).collect();
    format!("{}  {signed}  {when}\n\n{}", show.bold(&aid), document.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Home;

    #[test]
    fn a_name_is_of_the_only_domain_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let agents = ["anna.a.example", "bert.a.example", "carl.b.example"]
            .map(|aid| home.create(&Aid::parse(aid).unwrap()).unwrap());
        assert_eq!(whole_aid("x", &agents[..2]).unwrap(), "x.a.example");
        assert_eq!(whole_aid("x.c.example", &agents).unwrap(), "x.c.example");
        let doubt = whole_aid("x", &agents).unwrap_err().to_string();
        assert!(doubt.ends_with("x.a.example or x.b.example"), "{doubt}");
    }

    #[test]
    fn a_document_is_shown_without_its_signature_and_without_control_characters() {
        let found = FoundAgent {
            aid: "alice.aid.pub".to_owned(),
            agent_md: "---\r\naid: alice.aid.pub\n---\n# \x1b[2Jalice\n\n<!-- AUN-SIGNATURE\n-->".to_owned(),
            updated_at: "2026-03-20T12:00:00Z".to_owned(),
            source_ap: "search.aid.pub".to_owned(),
            signed: true,
            ..FoundAgent::default()
        };
        let shown = text(&Show::new(false, true), &found);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "alice.aid.pub  signed  2026-03-20T12:00:00Z from search.aid.pub");
        assert_eq!(lines[1..], ["", "---", "aid: alice.aid.pub", "---", "# \\u001b[2Jalice"]);
    }
}
