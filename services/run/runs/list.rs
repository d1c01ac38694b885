//! `run.list`: the runs of a tenant, newest first.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{List, RunPage};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const PAGE: PageLimit = PageLimit::new(50, 200);

impl RunService {
    pub(crate) async fn list(self: Arc<Self>, caller: Caller, params: List) -> Result<RunPage, Error> {
        let access = self.access(&caller)?;
        if let Some(tenant) = &params.tenant_id {
            access.may_create_for(tenant, &self.settings)?;
        }
        let limit = PAGE.of(params.limit)?;
        let tenants = match (&access, params.tenant_id) {
            (_, Some(tenant)) => Some(BTreeSet::from([tenant])),
            (RunAccess::Tenants(own), None) => Some(own.clone()),
            (RunAccess::Admin, None) => None,
            (RunAccess::Runner { .. }, None) => {
                return Err(Error::Forbidden("a runner sees one run".to_owned()));
            }
        };
        if let Some(cursor) = &params.cursor
            && !cursor.starts_with("run_")
        {
            return Err(Error::Invalid("cursor is not one that run.list gave".to_owned()));
        }
        let open = params.open == Some(true);
        let mut runs =
            self.store.runs_of(tenants.as_ref(), open, params.cursor.as_deref(), limit + 1).await?;
        let more = runs.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        if more {
            runs.pop();
        }
        let next_cursor = runs.last().filter(|_| more).map(|run| run.row.id.clone());
        let runs = runs.iter().map(|run| self.run_record(run)).collect::<Result<_, _>>()?;
        Ok(RunPage { runs, next_cursor })
    }
}
