//! `aund agents search`: agents by words and tags.

use super::explained::explained;
use crate::agent_args::{ReadingArgs, result};
use crate::show::{Show, printable_line};
use anyhow::Context as _;
use clap::Args;
use proto_schemas::Request as _;
use proto_schemas::requests::search::{Query, QueryItem, QueryPage};

#[derive(Args)]
pub(super) struct SearchCommand {
    /// Words, a name, or a full AID
    #[arg(value_name = "WORDS", required_unless_present = "tag")]
    words: Vec<String>,
    /// Only agents with this tag; repeatable, all must match
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only agents of this type, such as assistant
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// The maximum number of results
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(i64).range(1..=50))]
    limit: i64,
    /// Show how each score was computed
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    reading: ReadingArgs,
}

impl SearchCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.reading.args.show(), self.reading.args.home()?);
        let agents = self.reading.agents(&home)?;
        let query = Query {
            q: Some(self.words.join(" ")),
            tags: Some(self.tag),
            limit: Some(self.limit),
            kind: self.kind,
            explain: self.explain.then_some(true),
            ..Query::default()
        };
        let params = serde_json::to_value(&query)?;
        let answer = self.reading.call(&home, &agents, Query::METHOD, &params).await?;
        let answer = result(answer, show)?;
        if show.json {
            show.line(&answer.to_string())?;
            return Ok(());
        }
        let page: QueryPage =
            serde_json::from_value(answer).context("the server's answer has an unexpected form")?;
        for line in lines(&show, &page.items)? {
            show.line(&line)?;
        }
        if page.items.is_empty() {
            show.note("no agents found");
        } else if page.next_cursor.is_some() {
            show.note("there are more results: use --limit N or more specific words");
        }
        if page.stale == Some(true) {
            show.note(
                "agents may be missing or out of date: the index is being built, or another domain has not answered for a day",
            );
        }
        Ok(())
    }
}

/// Two or three lines for each agent, and with an explanation one more and one per word. Everything in them was written by others.
fn lines(show: &Show, items: &[QueryItem]) -> anyhow::Result<Vec<String>> {
    let wide = items.len().to_string().len();
    let indent = " ".repeat(wide);
    let mut lines = Vec::new();
    for (rank, item) in items.iter().enumerate() {
        let (name, aid) = (printable_line(&item.name), printable_line(&item.aid));
        let signed = if item.signed { show.green("signed") } else { show.dim("not signed") };
        lines.push(format!("{:>wide$}  {}  {}  {signed}", rank + 1, show.bold(&name), show.cyan(&aid)));
        if !item.description.trim().is_empty() {
            lines.push(format!("{indent}  {}", printable_line(&item.description)));
        }
        let tags: Vec<String> = item.tags.iter().map(|tag| printable_line(tag)).collect();
        let labels = [printable_line(&item.kind), tags.join(", ")];
        let labels: Vec<String> = labels.into_iter().filter(|label| !label.is_empty()).collect();
        lines.push(format!("{indent}  {}", show.dim(&labels.join(": "))));
        if let Some(explanation) = &item.explanation {
            let (sum, units) = explained(explanation.get())?;
            lines.push(format!("{indent}  {:.2} = {sum}", item.score));
            lines.extend(units.iter().map(|unit| format!("{indent}    {unit}")));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(items: &Value) -> Vec<String> {
        let page = serde_json::from_value(json!({ "items": items, "next_cursor": null }));
        let page: QueryPage = page.unwrap();
        lines(&Show::new(false, true), &page.items).unwrap()
    }

    fn item(name: &str) -> Value {
        json!({ "aid": "reviewer.aid.pub", "name": name, "description": "Reviews code", "tags": ["coding", "review"],
            "agent_md_url": "https://reviewer.aid.pub/agent.md", "type": "codeagent", "score": 222.8410, "signed": true,
            "updated_at": "2026-03-20T12:00:00Z", "source_ap": "search.aid.pub" })
    }

    #[test]
    fn an_agent_is_shown_with_its_rank_and_whether_it_is_signed() {
        let mut other = item("Other");
        (other["signed"], other["tags"], other["description"]) = (json!(false), json!([]), json!(""));
        assert_eq!(
            shown(&json!([item("Reviewer"), other])),
            [
                "1  Reviewer  reviewer.aid.pub  signed",
                "   Reviews code",
                "   codeagent: coding, review",
                "2  Other  reviewer.aid.pub  not signed",
                "   codeagent",
            ]
        );
        assert!(shown(&Value::Array(vec![item("Reviewer"); 10]))[0].starts_with(" 1  Reviewer"));
    }

    #[test]
    fn nobody_can_write_a_line_of_ours() {
        let lines = shown(&json!([item("Reviewer\n2  Bank  bank.aid.pub  signed\x1b[2J")]));
        assert_eq!(lines[0], "1  Reviewer 2 Bank bank.aid.pub signed\\u001b[2J  reviewer.aid.pub  signed");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_score_is_shown_as_its_sum() {
        let mut item = item("Reviewer");
        item["explanation"] = json!({ "exact_aid": 0.0, "name_equals": 120.0, "name_prefix": 60.0, "words": 0.0,
            "signed": 2.0, "freshness": 0.4, "coverage": 0.0, "units": [] });
        let lines = shown(&json!([item]));
        assert_eq!(lines[3], "   222.84 = name 120 + its beginning 60 + signed 2 + fresh 0.4");
    }
}
