//! `task.unsubscribe`: do not hear of tasks any more.

use super::{add_answered, in_order, left, subscriber, task_set};
use crate::TaskService;
use crate::model::error::Error;
use kernel::Caller;
use proto_schemas::requests::task::{Unsubscribe, UnsubscribedTasks};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn unsubscribe(
        self: Arc<Self>,
        caller: Caller,
        params: Unsubscribe,
    ) -> Result<UnsubscribedTasks, Error> {
        let key = subscriber(&caller)?;
        let wanted = task_set(&params.task_ids)?;
        let mut removed = self.store.unsubscribe(&key, &wanted).await?;
        let ask = |task_ids| Unsubscribe { task_ids };
        let left = left(&wanted, &removed);
        let answers = self.at_homes(&caller, &left, ask).await?;
        let named = |(asked, answer): (_, UnsubscribedTasks)| (asked, answer.unsubscribed);
        add_answered(&mut removed, answers.into_iter().map(named).collect());
        Ok(UnsubscribedTasks { unsubscribed: in_order(&params.task_ids, &removed) })
    }
}
