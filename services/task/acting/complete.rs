//! `task.complete`: the assignee is done, and hands in the last of the results.

use super::CallTarget;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::Operation;
use crate::params::offered;
use kernel::Caller;
use proto_schemas::requests::task::{Complete, CompletedTask};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn complete(
        self: Arc<Self>,
        caller: Caller,
        params: Complete,
    ) -> Result<CompletedTask, Error> {
        let target = CallTarget::of(&params, &params.task_id, &params.request_id, params.expected_version)?;
        let artifacts = params.artifacts.unwrap_or_default().into_iter().enumerate();
        let artifacts = artifacts.map(|(n, artifact)| offered(&format!("artifacts[{n}]"), artifact));
        let artifacts = artifacts.collect::<Result<_, _>>()?;
        self.act(&caller, target, Operation::Complete { artifacts }).await
    }
}
