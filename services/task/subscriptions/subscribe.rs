//! `task.subscribe`: hear of what happens to tasks.

use super::{add_answered, in_order, left, subscriber, task_set};
use crate::TaskService;
use crate::model::error::Error;
use crate::model::event::TaskEventName;
use crate::model::tree::Trees;
use crate::store::SUBSCRIBED_MS;
use kernel::Caller;
use proto_schemas::requests::task::{Subscribe, SubscribedTasks};
use std::sync::Arc;

/// Subscriptions of one device and slot.
const MOST: i64 = 1000;

impl TaskService {
    pub(crate) async fn subscribe(
        self: Arc<Self>,
        caller: Caller,
        params: Subscribe,
    ) -> Result<SubscribedTasks, Error> {
        let key = subscriber(&caller)?;
        let (wanted, names) = (task_set(&params.task_ids)?, params.events);
        let events = events(names.as_deref())?;
        // Those that the caller may not read are left out without a word, like those that do not exist.
        let readable = |trees: &Trees| {
            let tasks = wanted.iter().filter_map(|id| trees.get(id));
            let readable = tasks.filter(|task| trees.relation(task, &key.aid).reads);
            readable.map(|task| (task.id.clone(), task.ended_at.map(|at| at + SUBSCRIBED_MS))).collect()
        };
        let Some(mut subscribed) = self.store.subscribe(&key, &wanted, events, MOST, readable).await? else {
            return Err(Error::TooMany(format!("a device and slot can subscribe to at most {MOST} tasks")));
        };
        let ask = |task_ids| Subscribe { task_ids, events: names.clone() };
        let left = left(&wanted, &subscribed);
        let answers = self.at_homes(&caller, &left, ask).await?;
        let named = |(asked, answer): (_, SubscribedTasks)| (asked, answer.subscribed);
        add_answered(&mut subscribed, answers.into_iter().map(named).collect());
        Ok(SubscribedTasks { subscribed: in_order(&params.task_ids, &subscribed) })
    }
}

/// A bit for each event; all of them where none is named.
fn events(names: Option<&[String]>) -> Result<i64, Error> {
    let names = names.unwrap_or_default();
    if names.is_empty() {
        return Ok(TaskEventName::ALL.into_iter().map(TaskEventName::bit).sum());
    }
    names.iter().try_fold(0, |bits, name| {
        let event = TaskEventName::from_short(name)
            .ok_or_else(|| Error::Param(format!("{name:?} is not an event of tasks")))?;
        Ok(bits | event.bit())
    })
}
