//! `aund agents index`: the index of the directory, for its operator.

use crate::output;
use anyhow::Context as _;
use clap::Args;
use gateway::admin;
use proto_schemas::Request;
use proto_schemas::requests::search::{Rebuild, SearchStatus, Status};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct IndexCommand {
    /// Rebuild the index from the stored documents; the old one answers until then
    #[arg(long)]
    rebuild: bool,
    /// The data folder of the server, or of its search process
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

impl IndexCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        if self.rebuild {
            self.ask(&Rebuild {}).await?;
        }
        let status = self.ask(&Status {}).await?;
        if self.json {
            output::line(&status.to_string())?;
            return Ok(());
        }
        if self.rebuild {
            output::line("the index is being rebuilt")?;
        }
        let status = serde_json::from_value(status).context("the server's answer has an unexpected form")?;
        Ok(output::print(&text(&status))?)
    }

    async fn ask<R: Request>(&self, request: &R) -> anyhow::Result<Value> {
        let answer = admin::ask(&self.data, R::METHOD, &serde_json::to_value(request)?).await?;
        answer.with_context(|| format!("no server runs on {}", self.data.display()))
    }
}

fn text(status: &SearchStatus) -> String {
    let SearchStatus { agents, sequence, floor, index, outbox_position } = status;
    let behind = match sequence - index.generation {
        0 => "level with the log".to_owned(),
        behind => format!("{behind} changes behind the log"),
    };
    let building = match (index.rebuilding, index.progress) {
        (false, _) => String::new(),
        (true, progress) => format!(", rebuilding ({:.0} %)", progress.unwrap_or(0.0) * 100.0),
    };
    format!(
        "agents     {agents} listed\n\
         changes    up to {sequence}, stored from {} on\n\
         index      {} documents, {behind}{building}\n\
         documents  taken over up to change {outbox_position} of the agents\n",
        floor + 1,
        index.documents,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::find;

    #[test]
    fn a_status_is_four_lines() {
        let example = &find("search.status").unwrap().doc()["examples"][0]["result"];
        let mut status: SearchStatus = serde_json::from_value(example.clone()).unwrap();
        assert_eq!(
            text(&status),
            "agents     312 listed\n\
             changes    up to 991, stored from 801 on\n\
             index      312 documents, level with the log, rebuilding (25 %)\n\
             documents  taken over up to change 1204 of the agents\n"
        );
        (status.index.rebuilding, status.index.generation) = (false, 980);
        assert!(text(&status).contains("312 documents, 11 changes behind the log\n"));
    }
}
