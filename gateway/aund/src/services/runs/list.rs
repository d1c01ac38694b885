//! `aund runs list`: the runs of a tenant, or of all.

use super::caller::{RunCallerArgs, read};
use super::text::{failure, state, word};
use crate::show::{Show, printable_line, time};
use clap::Args;
use proto_schemas::requests::run::{List, RunPage, RunRecord};

/// What one answer may hold.
const PAGE: usize = 200;

#[derive(Args)]
pub(super) struct ListRunsCommand {
    /// Only runs of this tenant [default: all that the caller may see]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Also list runs that have ended
    #[arg(long)]
    all: bool,
    /// The maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    limit: u16,
    #[command(flatten)]
    caller: RunCallerArgs,
}

impl ListRunsCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let ListRunsCommand { tenant, all, limit, caller } = self;
        let caller = caller.caller()?;
        let show = caller.show;
        let mut list = List { tenant_id: tenant, open: Some(!all), ..List::default() };
        let mut left = usize::from(limit);
        let mut shown = 0;
        loop {
            list.limit = Some(left.min(PAGE).try_into()?);
            let answer = caller.call(&list).await?;
            if show.json {
                show.line(&answer.to_string())?;
            }
            let page: RunPage = read(answer)?;
            if !show.json {
                page.runs.iter().try_for_each(|run| show.line(&line(&show, run)))?;
            }
            shown += page.runs.len();
            left = left.saturating_sub(page.runs.len());
            list.cursor = page.next_cursor;
            if left == 0 || list.cursor.is_none() {
                break;
            }
        }
        if shown == 0 && !show.json {
            show.note(if all { "no runs" } else { "no open runs: --all lists those that have ended" });
        } else if list.cursor.is_some() && !show.json {
            show.note("there are more runs: use --limit N");
        }
        Ok(())
    }
}

fn line(show: &Show, run: &RunRecord) -> String {
    let (id, status) = (show.dim(&printable_line(&run.run_id)), state(show, &word(run.status)));
    let whose = format!("{} {}", printable_line(&run.tenant_id), show.cyan(&printable_line(&run.project_id)));
    let failure = failure(run.failure_kind.as_deref(), run.failure_message.as_deref());
    let profile = printable_line(&run.backend_profile);
    let at = show.dim(&time(&run.updated_at));
    format!("{id}  {status}  {at}  {whose}  {profile}  {failure}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::find;

    #[test]
    fn a_run_is_a_line() {
        let example = &find("run.create").unwrap().doc()["examples"][0]["result"]["run"];
        let mut run: RunRecord = serde_json::from_str(&example.to_string()).unwrap();
        run.project_id = "acme/\x1b[2Jsite".to_owned();
        run.failure_kind = Some("infra-failed".to_owned());
        assert_eq!(
            line(&Show::new(false, true), &run),
            "run_0190163d868b7ce2a5f1c1b6d0b3a7e4  pending       2026-11-14T22:16:01Z  demo acme/\\u001b[2Jsite  \
             example  infra-failed"
        );
    }
}
