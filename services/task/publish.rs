//! The task that tells others of committed changes, in the order of the commits.
//!
//! The owner of a task hears everything without asking, the assignee what it has to know, and whoever subscribed what it asked for;
//! each connection once, and never the one that called.

use super::federation::{RelayDrafts, RelayQueues};
use super::model::event::TaskEvent;
use super::model::operation::CallOrigin;
use super::reading::FollowedAgents;
use super::store::{Store, Subscriber, SubscriberKey};
use kernel::{Aid, Audience, Bus, Clock, Event, Presence, World, catch_panic};
use proto_schemas::requests::task::{AssignedTasksChanged, TaskId};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;

/// How many commits may be ahead of their events.
const MAX_COMMITS: usize = 64;

#[derive(Debug)]
pub(super) struct CommittedEvent {
    pub event: TaskEvent,
    /// None where the server itself has changed the task.
    pub origin: Option<Arc<CallOrigin>>,
}

struct TaskPublisher {
    issuer: String,
    store: Store,
    relays: Arc<RelayQueues>,
    followed: Arc<FollowedAgents>,
    bus: Bus,
    presence: Presence,
    clock: Clock,
}

/// Gives where committed events are sent. The task ends when nobody can send any more.
pub(super) fn start(
    world: &World,
    store: Store,
    relays: Arc<RelayQueues>,
    followed: Arc<FollowedAgents>,
) -> mpsc::Sender<Vec<CommittedEvent>> {
    let (committed, receiver) = mpsc::channel(MAX_COMMITS);
    let publisher = TaskPublisher {
        issuer: world.issuer.clone(),
        store,
        relays,
        followed,
        bus: world.bus.clone(),
        presence: world.presence.clone(),
        clock: world.clock.clone(),
    };
    world.tracker.spawn(publisher.publish_all(receiver));
    committed
}

impl TaskPublisher {
    async fn publish_all(self, mut commits: mpsc::Receiver<Vec<CommittedEvent>>) {
        while let Some(committed) = commits.recv().await {
            // The callers are being answered at this moment; they come first.
            tokio::task::yield_now().await;
            self.tell_followers(&committed);
            let subscribers = self.subscribers(&committed).await;
            let mut drafts = RelayDrafts::default();
            for told in &committed {
                self.end_unreadable(told, &subscribers).await;
                // A panic is logged there, and nobody waits for more: whoever misses an event finds its effect with `task.get`.
                let _ = catch_panic("the event of a task", || {
                    self.publish(told, &subscribers, &mut drafts);
                    Ok(())
                });
            }
            for (issuer, relay) in drafts.written() {
                match relay {
                    // A domain that is away is told of it by the outbox, with all that it missed.
                    Ok(_) if self.store.outbox.is_failing(&issuer) => {}
                    Ok(relay) => self.relays.push(issuer, relay),
                    Err(error) => error.log("task.relay_event"),
                }
            }
        }
    }

    /// Whoever works on the tasks of an agent in its place looks at them when it would have been told of something.
    fn tell_followers(&self, committed: &[CommittedEvent]) {
        let assignees = committed.iter().filter_map(|told| told.event.assignee.as_ref());
        let changed: BTreeSet<&Aid> = assignees.filter(|aid| self.followed.contain(aid)).collect();
        if !changed.is_empty() {
            let aids = changed.into_iter().cloned().collect();
            self.bus.signal(&AssignedTasksChanged { aids });
        }
    }

    /// Whoever may not read a task any more is not subscribed to it any more.
    async fn end_unreadable(&self, told: &CommittedEvent, subscribers: &[Subscriber]) {
        let of_task = subscribers.iter().filter(|subscriber| subscriber.task_id == told.event.task_id);
        for Subscriber { key, task_id, .. } in of_task.filter(|one| !told.event.readers.contain(&one.key.aid))
        {
            if let Err(error) = self.store.unsubscribe(key, &BTreeSet::from([task_id.clone()])).await {
                tracing::warn!("a subscription to {task_id} could not be ended: {error}");
            }
        }
    }

    async fn subscribers(&self, committed: &[CommittedEvent]) -> Vec<Subscriber> {
        let tasks: BTreeSet<TaskId> = committed.iter().map(|told| told.event.task_id.clone()).collect();
        if tasks.is_empty() {
            return Vec::new();
        }
        match self.store.subscribers(&tasks, self.clock.now_ms()).await {
            Ok(subscribers) => subscribers,
            Err(error) => {
                tracing::warn!("subscribers could not be notified of a task change: {error}");
                Vec::new()
            }
        }
    }

    /// Agents of this domain are told here; those of others by their domains, which learn of the change in any case.
    fn publish<'a>(
        &self,
        CommittedEvent { event, origin }: &'a CommittedEvent,
        subscribers: &[Subscriber],
        drafts: &mut RelayDrafts<'a>,
    ) {
        let (origin, mut elsewhere) = (origin.as_deref(), Vec::new());
        for (aid, to) in self.audiences(event, origin, subscribers) {
            if aid.issuer() != self.issuer {
                elsewhere.push(to);
            } else if self.presence.may_be_online(aid) {
                self.bus.publish(&Event::new(to, event.name.method(), &event.params));
            }
        }
        drafts.add(&self.issuer, event, origin, &elsewhere);
    }

    /// Who is told of an event.
    fn audiences<'a>(
        &self,
        event: &'a TaskEvent,
        origin: Option<&CallOrigin>,
        subscribers: &'a [Subscriber],
    ) -> Vec<(&'a Aid, Audience)> {
        let without_asking: BTreeSet<&Aid> = event.assignee.iter().chain([&event.owner]).collect();
        let whole = without_asking.iter().map(|aid| match origin.filter(|origin| origin.aid == **aid) {
            Some(origin) => (*aid, Audience::Others { aid: (*aid).clone(), connection: origin.connection }),
            None => (*aid, Audience::Agent((*aid).clone())),
        });
        let asked = subscribers.iter().filter(|subscriber| {
            let Subscriber { key, task_id, events } = subscriber;
            *task_id == event.task_id
                && events & event.name.bit() != 0
                && !without_asking.contains(&key.aid)
                && event.readers.contain(&key.aid)
                && !origin.is_some_and(|origin| self.is_caller(origin, key))
        });
        let parts = asked.map(|Subscriber { key, .. }| {
            let (device, slot) = (Some(key.device.clone()), Some(key.slot.clone()));
            (&key.aid, Audience::Instance { aid: key.aid.clone(), device, slot })
        });
        whole.chain(parts).collect()
    }

    /// A device and slot has one long connection; a call over HTTP has none. Of a call of another domain the connection is not known.
    fn is_caller(&self, origin: &CallOrigin, key: &SubscriberKey) -> bool {
        (origin.connection != 0 || origin.aid.issuer() != self.issuer)
            && origin.aid == key.aid
            && origin.device == key.device
            && origin.slot.key() == key.slot.key()
    }
}
