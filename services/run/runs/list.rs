//! `run.list`: the runs of a tenant, newest first.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::ids::can_exist;
use crate::runs::commands::that_fit;
use crate::store::{BoundedPage, ListedRuns};
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{List, RunPage, RunRecord};
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
            && !(cursor.starts_with("run_") && can_exist(cursor))
        {
            return Err(Error::Invalid("cursor is not one that run.list gave".to_owned()));
        }
        let wanted = ListedRuns {
            tenants: tenants.as_ref(),
            open: params.open == Some(true),
            before: params.cursor.as_deref(),
            limit,
        };
        let BoundedPage { items, more } = self.store.runs_of(&wanted).await?;
        let runs = items.iter().map(|run| self.run_record(run)).collect::<Result<_, _>>()?;
        let (runs, cut) = that_fit(runs, bytes_of);
        let next_cursor = runs.last().filter(|_| more || cut).map(|run| run.run_id.clone());
        Ok(RunPage { runs, next_cursor })
    }
}

/// Of what its owner has written as JSON. The rest of a run is short.
fn bytes_of(run: &RunRecord) -> usize {
    let given = [Some(&run.workspace_ref), run.trace_sink.as_ref(), run.resource_bundle_ref.as_ref()];
    given.into_iter().flatten().map(|json| json.get().len()).sum()
}
