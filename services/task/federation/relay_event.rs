//! `task.relay_event`: another domain tells of tasks that agents of ours take part in.

use super::offered::{OfferedTask, ToldBetween};
use crate::TaskService;
use crate::model::error::Error;
use crate::store::MOST_ITEMS;
use crate::store::{StubKey, StubRow, StubsWritten};
use kernel::{Aid, Audience, Caller, Event};
use proto_schemas::requests::task::{RelayEvent, RelayedEvents, RelayedTask, UnknownAgent};
use std::collections::BTreeMap;
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn relay_event(
        self: Arc<Self>,
        caller: Caller,
        params: RelayEvent,
    ) -> Result<RelayedEvents, Error> {
        if params.items.len() > MOST_ITEMS {
            return Err(Error::Param(format!("a call must have at most {MOST_ITEMS} tasks")));
        }
        let mut answer = RelayedEvents::default();
        // Nobody else has tasks in another domain to tell of.
        let Some(home) = task_service_of(&caller) else {
            answer.refused = params.items.into_iter().map(|item| item.task.task_id).collect();
            return Ok(answer);
        };
        let now = self.clock.now_ms();
        let mut offered =
            self.offered(params.items, ToldBetween { home, ours: &self.issuer, now }, &mut answer);
        answer.unknown = self.without_unknown(&mut offered).await?;

        let stubs: Vec<StubRow> = offered.iter().flat_map(|task| task.stubs.iter().cloned()).collect();
        let written = match stubs.is_empty() {
            true => StubsWritten::default(),
            false => self.store.write_stubs(home, &stubs, now).await?,
        };
        answer.refused.extend(written.refused.iter().map(ToString::to_string));
        for task in &offered {
            self.publish_offered(task, &written);
        }
        Ok(answer)
    }

    /// Those that can be read; the others are refused.
    fn offered(
        &self,
        items: Vec<RelayedTask>,
        between: ToldBetween<'_>,
        answer: &mut RelayedEvents,
    ) -> Vec<OfferedTask> {
        let mut offered = Vec::with_capacity(items.len());
        for item in items {
            let task_id = item.task.task_id.clone();
            match OfferedTask::read(item, between) {
                Ok(task) => offered.push(task),
                Err(flaw) => {
                    tracing::debug!(
                        peer.issuer = between.home,
                        "a message of {} was refused: {flaw}",
                        between.home
                    );
                    answer.refused.push(task_id);
                }
            }
        }
        offered
    }

    /// Leaves out the agents that are not registered, and gives them.
    async fn without_unknown(&self, offered: &mut [OfferedTask]) -> Result<Vec<UnknownAgent>, Error> {
        let mut registered: BTreeMap<Aid, bool> = BTreeMap::new();
        for stub in offered.iter().flat_map(|task| &task.stubs) {
            if !registered.contains_key(&stub.key.aid) {
                registered.insert(stub.key.aid.clone(), self.is_registered(&stub.key.aid).await?);
            }
        }
        let mut unknown = Vec::new();
        for task in offered {
            task.stubs.retain(|StubRow { key: StubKey { aid, task_id }, .. }| {
                let known = registered.get(aid) == Some(&true);
                if !known {
                    unknown.push(UnknownAgent { task_id: task_id.to_string(), aid: aid.to_string() });
                }
                known
            });
        }
        Ok(unknown)
    }

    /// Events of a version that was relayed for an agent before are not published again.
    fn publish_offered(&self, task: &OfferedTask, written: &StubsWritten) {
        for event in &task.events {
            for to in &event.to {
                let (Audience::Agent(aid)
                | Audience::Instance { aid, .. }
                | Audience::OtherInstances { aid, .. }) = to
                else {
                    continue;
                };
                let key = StubKey { aid: aid.clone(), task_id: task.task_id.clone() };
                let is_new = written.known.get(&key).is_some_and(|before| task.version > *before);
                if is_new && self.presence.may_be_online(aid) {
                    self.bus.publish(&Event::new(to.clone(), event.name.method(), &event.params));
                }
            }
        }
    }
}

/// The domain whose service of tasks calls.
fn task_service_of(caller: &Caller) -> Option<&str> {
    match caller {
        Caller::ForeignService { service, relayed } if service == "task" => Some(&relayed.from_issuer),
        _ => None,
    }
}
