//! `task.unsubscribe`: do not hear of tasks any more.

use super::{add_answered, in_order, left, subscriber, task_set};
use crate::kernel::Caller;
use crate::task::TaskService;
use crate::task::model::error::Error;
use crate::task::model::task::TaskId;
use proto_schemas::Request as _;
use proto_schemas::requests::task::{Unsubscribe, UnsubscribedTasks};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(in crate::task) struct UnsubscribeParams {
    task_ids: Vec<TaskId>,
}

impl TaskService {
    pub(in crate::task) async fn unsubscribe(
        self: Arc<Self>,
        caller: Caller,
        params: UnsubscribeParams,
    ) -> Result<UnsubscribedTasks, Error> {
        let key = subscriber(&caller)?;
        let wanted = task_set(&params.task_ids)?;
        let mut removed = self.store.unsubscribe(&key, &wanted).await?;
        let ask = |task_ids| Unsubscribe { task_ids };
        let left = left(&wanted, &removed);
        let answers = self.at_homes(&caller, Unsubscribe::METHOD, &left, ask).await?;
        let named = |(asked, answer): (_, UnsubscribedTasks)| (asked, answer.unsubscribed);
        add_answered(&mut removed, answers.into_iter().map(named).collect());
        Ok(UnsubscribedTasks { unsubscribed: in_order(&params.task_ids, &removed) })
    }
}
