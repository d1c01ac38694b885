//! `run.commands`: the commands of a run.

use crate::RunService;
use crate::error::Error;
use crate::shown::command_record;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{Commands, RunCommandPage};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(20, 100);

impl RunService {
    pub(crate) async fn commands(
        self: Arc<Self>,
        caller: Caller,
        params: Commands,
    ) -> Result<RunCommandPage, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let limit = PAGE.of(params.limit)?;
        let before = params.before_seq.unwrap_or(i64::MAX);
        let mut found = self.store.commands_before(&run.row.id, before, limit + 1).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = found.len() > most;
        found.truncate(most);
        let shown = found.into_iter().map(|command| command_record(command, false));
        Ok(RunCommandPage { commands: shown.collect::<Result<_, _>>()?, has_more })
    }
}
