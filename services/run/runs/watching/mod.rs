//! Those who are told of a run as it goes on: subscribed connections and event streams.

mod stream;
mod subscribe;
mod unsubscribe;

pub(crate) use stream::watch_events;

use crate::RunService;
use crate::error::Error;
use crate::shown::events_shown;
use kernel::{Aid, Audience, Event};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Subscriptions of one agent.
pub(super) const MOST: usize = 64;
/// Events that are sent at once, and the pause after them while there are more: a connection has to take them, too.
pub(super) const PAGE: i64 = 100;
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How often it is seen whether the connection is there.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Which connection is told of which run, by this process.
#[derive(Clone, Default)]
pub(crate) struct RunSubscriptions(Arc<Mutex<HashMap<SubscriptionKey, CancellationToken>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SubscriptionKey {
    aid: Aid,
    connection: u64,
    run: String,
}

impl RunSubscriptions {
    /// Ends what was there for the key: a client that subscribes again says from which seq on.
    pub(super) fn begin(&self, key: &SubscriptionKey) -> Result<CancellationToken, Error> {
        let mut all = self.0.lock();
        let of_agent = all.keys().filter(|other| other.aid == key.aid && *other != key).count();
        if of_agent >= MOST {
            return Err(Error::Limit {
                sentence: format!("an agent can subscribe to at most {MOST} runs"),
                scope: "run.subscriptions",
                limit: i64::try_from(MOST).unwrap_or(i64::MAX),
                held: i64::try_from(of_agent).unwrap_or(i64::MAX),
            });
        }
        let token = CancellationToken::new();
        if let Some(before) = all.insert(key.clone(), token.clone()) {
            before.cancel();
        }
        Ok(token)
    }

    pub(super) fn end(&self, key: &SubscriptionKey) -> bool {
        match self.0.lock().remove(key) {
            Some(token) => {
                token.cancel();
                true
            }
            None => false,
        }
    }

    /// Of a task that has come to its end: a newer one of the same key stays.
    pub(super) fn ended(&self, key: &SubscriptionKey, token: &CancellationToken) {
        if !token.is_cancelled() {
            self.0.lock().remove(key);
        }
    }
}

impl RunService {
    /// Until the run has ended and everything is told, or the connection is gone.
    pub(super) async fn tell(&self, key: &SubscriptionKey, mut after: i64) {
        let mut watch = self.watched.watch(&key.run);
        let to = Audience::Connection { aid: key.aid.clone(), connection: key.connection };
        let mut missed = 0;
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
            // Another process may be late with its announcement, so it has to be missed twice.
            let there = self.presence.sessions(&key.aid).iter().any(|one| one.connection == key.connection);
            missed = if there { 0 } else { missed + 1 };
            if missed > 2 {
                return;
            }
        }
    }
}
