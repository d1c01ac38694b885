//! `aund agents show`: what an agent says about itself.

use crate::agent_args::{AskingArgs, result};
use crate::show::{Show, printable, printable_line};
use anyhow::Context as _;
use clap::Args;
use client::Aid;
use proto_schemas::Request as _;
use proto_schemas::requests::search::{FoundAgent, GetAgent};

#[derive(Args)]
pub(super) struct ShowAgentCommand {
    /// Whose: a name of the asking agent's domain, or a whole AID
    aid: String,
    #[command(flatten)]
    asking: AskingArgs,
}

impl ShowAgentCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let args = &self.asking.args;
        let (show, home) = (args.show(), args.home()?);
        let agent = self.asking.agent(&home)?;
        let whole = match self.aid.contains('.') {
            true => self.aid,
            false => format!("{}.{}", self.aid, agent.aid.issuer()),
        };
        let wanted = GetAgent { aid: Aid::parse(&whole)? };
        let params = serde_json::to_value(&wanted)?;
        let answer = args.call_again_while_full(&home, &agent, GetAgent::METHOD, &params).await?;
        let answer = result(answer, show)?;
        if show.json {
            show.line(&answer.to_string())?;
            return Ok(());
        }
        let found: FoundAgent =
            serde_json::from_value(answer).context("the server's answer is not understood")?;
        show.line(&text(&show, &found))?;
        Ok(())
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
