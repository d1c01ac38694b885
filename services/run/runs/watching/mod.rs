//! Those who are told of a run as it goes on: subscribed connections and event streams.

mod stream;
mod subscribe;
mod unsubscribe;

pub(crate) use stream::watch_events;

use crate::RunService;
use crate::error::Error;
use crate::shown::events_shown;
use kernel::{Aid, Audience, Bus, Event};
use parking_lot::Mutex;
use proto_schemas::requests::run::RunSubscriptionEnded;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Subscriptions of one agent.
pub(super) const MOST: usize = 64;
/// Events that are sent at once, and the pause after them while there are more: a connection has to take them, too.
pub(super) const PAGE: i64 = 100;
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// How often it is seen whether the connection is there.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Which connection is told of which run, by this process.
#[derive(Clone)]
pub(crate) struct RunSubscriptions {
    bus: Bus,
    told: ToldConnections,
}

type ToldConnections = Arc<Mutex<HashMap<SubscriptionKey, RunSubscription>>>;

/// What tells a connection, until it is cancelled.
#[derive(Clone, Debug)]
pub(crate) struct RunSubscription {
    id: String,
    pub token: CancellationToken,
}

/// A connection and what it is told of: a run, or a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubscriptionKey {
    pub aid: Aid,
    pub connection: u64,
    pub run: String,
}

impl RunSubscriptions {
    /// A call of a connection reaches any process, and what another one has ended is ended here, too.
    pub fn listen(bus: &Bus) -> RunSubscriptions {
        let told = ToldConnections::default();
        let here = told.clone();
        bus.listen(move |event| {
            let Some(ended) = event.as_signal::<RunSubscriptionEnded>() else { return };
            let RunSubscriptionEnded { aid, connection, run_id, except } = ended;
            let key = SubscriptionKey { aid, connection, run: run_id };
            let mut told = here.lock();
            if told.get(&key).is_some_and(|subscription| Some(&subscription.id) != except.as_ref())
                && let Some(subscription) = told.remove(&key)
            {
                subscription.token.cancel();
            }
        });
        RunSubscriptions { bus: bus.clone(), told }
    }

    /// Ends what was there for the key: a client that subscribes again says from which seq on.
    pub(crate) fn begin(&self, key: &SubscriptionKey, id: String) -> Result<RunSubscription, Error> {
        let subscription = RunSubscription { id: id.clone(), token: CancellationToken::new() };
        {
            let mut told = self.told.lock();
            let of_agent = told.keys().filter(|other| other.aid == key.aid && *other != key).count();
            if of_agent >= MOST {
                return Err(Error::Limit {
                    sentence: format!("an agent can subscribe to at most {MOST} runs and threads"),
                    scope: "run.subscriptions",
                    limit: i64::try_from(MOST).unwrap_or(i64::MAX),
                    held: i64::try_from(of_agent).unwrap_or(i64::MAX),
                });
            }
            if let Some(before) = told.insert(key.clone(), subscription.clone()) {
                before.token.cancel();
            }
        }
        self.tell_others(key, Some(id));
        Ok(subscription)
    }

    pub(crate) fn end(&self, key: &SubscriptionKey) -> bool {
        let ended = self.told.lock().remove(key);
        self.tell_others(key, None);
        ended.inspect(|subscription| subscription.token.cancel()).is_some()
    }

    fn tell_others(&self, key: &SubscriptionKey, except: Option<String>) {
        let SubscriptionKey { aid, connection, run } = key.clone();
        self.bus.signal(&RunSubscriptionEnded { aid, connection, run_id: run, except });
    }

    /// Of a task that has come to its end: a newer one of the same key stays.
    pub(crate) fn ended(&self, key: &SubscriptionKey, ended: &RunSubscription) {
        let mut told = self.told.lock();
        if told.get(key).is_some_and(|subscription| subscription.id == ended.id) {
            told.remove(key);
        }
    }
}

impl RunService {
    /// Until the run has ended and everything is told, or the connection is gone.
    pub(super) async fn tell(&self, key: &SubscriptionKey, mut after: i64) {
        let mut watch = self.watched.watch(&key.run);
        let to = Audience::Connection { aid: key.aid.clone(), connection: key.connection };
        let mut missed = 0;
        // The answer to the subscription is on its way.
        sleep(PAUSE).await;
        loop {
            let page = self.store.events_page(&key.run, after, PAGE, &[]).await;
            let page = page.map_err(kernel::RpcError::from).and_then(|page| events_shown(&key.run, page));
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    tracing::debug!("events of {} could not be read: {error}", key.run);
                    sleep(LOOK_EVERY).await;
                    continue;
                }
            };
            for event in &page.events {
                after = event.seq;
                self.bus.publish(&Event::new(to.clone(), "event/run.event", event));
            }
            // Also where a page has nothing: what is removed after its retention leaves a gap.
            after = after.max(page.next_after_seq);
            if page.has_more {
                sleep(PAUSE).await;
                continue;
            }
            match self.store.run(&key.run).await {
                Ok(Some(run)) if run.row.ended_at.is_none() => {}
                Ok(Some(run)) if after < run.row.last_seq => continue,
                Ok(_) => return,
                Err(_) => {}
            }
            watch.changed(LOOK_EVERY).await;
            if self.has_left(key, &mut missed) {
                return;
            }
        }
    }

    /// Whether the connection is gone. Another process may be late with its announcement, so it has to be missed twice.
    pub(crate) fn has_left(&self, key: &SubscriptionKey, missed: &mut u32) -> bool {
        let there = self.presence.sessions(&key.aid).iter().any(|one| one.connection == key.connection);
        *missed = if there { 0 } else { *missed + 1 };
        *missed > 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_told_of_a_run_by_one_process_only() {
        let bus = Bus::local();
        let (one, other) = (RunSubscriptions::listen(&bus), RunSubscriptions::listen(&bus));
        let aid = Aid::parse("alice.aid.pub").unwrap();
        let key = SubscriptionKey { aid, connection: 7, run: "run_1".to_owned() };
        let first = one.begin(&key, "1".to_owned()).unwrap();
        let second = other.begin(&key, "2".to_owned()).unwrap();
        assert!(first.token.is_cancelled() && !second.token.is_cancelled());
        let third = other.begin(&key, "3".to_owned()).unwrap();
        other.ended(&key, &second);
        assert!(second.token.is_cancelled() && !third.token.is_cancelled(), "a newer one stays");
        assert!(!one.end(&key), "this process does not know of it");
        assert!(third.token.is_cancelled() && other.told.lock().is_empty());
    }
}
