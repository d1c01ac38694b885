//! `run.get`: read a run.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::{Get, GotRun};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn get(self: Arc<Self>, caller: Caller, params: Get) -> Result<GotRun, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        Ok(GotRun { run: self.run_record(&run)? })
    }
}
