//! What an agent should be asked about is published again when one of its devices connects: an event that was published while
//! nobody was connected reached nobody.

use crate::consent::notices::{REAUTH_REQUIRED, manifest_payload};
use crate::consent::scopes_of;
use crate::{AgentService, Error};
use kernel::{Aid, Audience, Event, RpcError};
use parking_lot::Mutex;
use proto_schemas::requests::h2a::SessionOpened;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Arrivals that wait, of some hundred bytes each. Who is not among them asks with `h2a.list`, as every client should.
const MOST: usize = 10_000;
/// A session is announced a moment after its service was told of it, and a short one never.
const WAIT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Questions that one agent is told of at once.
const MOST_PENDING: i64 = 100;

/// The devices that connected and were not looked at yet.
#[derive(Default)]
pub(crate) struct DeviceArrivals {
    noted: Mutex<Vec<SessionOpened>>,
    came: Notify,
}

impl DeviceArrivals {
    pub fn note(&self, notice: SessionOpened) {
        let mut noted = self.noted.lock();
        if noted.len() < MOST {
            noted.push(notice);
            self.came.notify_one();
        }
    }

    fn take(&self) -> Vec<SessionOpened> {
        std::mem::take(&mut *self.noted.lock())
    }
}

/// A device about whose agent something is pending, until its session is there.
struct WaitingArrival {
    notice: SessionOpened,
    until: Instant,
}

impl AgentService {
    /// Runs until the server stops.
    pub(crate) async fn tell_arrivals(&self) {
        let mut waiting = Vec::new();
        loop {
            match waiting.is_empty() {
                true => self.arrivals.came.notified().await,
                false => tokio::time::sleep(LOOK_AGAIN).await,
            }
            let noted = self.arrivals.take();
            match self.with_pending(noted).await {
                Ok(arrivals) => waiting.extend(arrivals.take(MOST.saturating_sub(waiting.len()))),
                Err(error) => tracing::debug!("devices are not told what is pending: {error}"),
            }
            waiting = self.tell_present(waiting).await;
        }
    }

    /// Those whose agents should be asked about something: one look for all that came meanwhile.
    async fn with_pending(
        &self,
        noted: Vec<SessionOpened>,
    ) -> sqlx::Result<impl Iterator<Item = WaitingArrival>> {
        let users = noted.iter().map(|notice| notice.aid.as_str()).collect::<BTreeSet<_>>();
        let asked = match users.is_empty() {
            true => BTreeSet::new(),
            false => self.store.users_to_ask(&users).await?,
        };
        let until = Instant::now() + WAIT;
        let concerned = noted.into_iter().filter(move |notice| asked.contains(notice.aid.as_str()));
        Ok(concerned.map(move |notice| WaitingArrival { notice, until }))
    }

    /// Tells those whose sessions are there, and gives those that are still awaited.
    async fn tell_present(&self, waiting: Vec<WaitingArrival>) -> Vec<WaitingArrival> {
        let mut awaited = Vec::new();
        for arrival in waiting {
            let (aid, connection) = (&arrival.notice.aid, arrival.notice.connection.unwrap_or_default());
            let here = self.presence.sessions(aid).iter().any(|session| session.connection == connection);
            if here {
                let to = Audience::Connection { aid: aid.clone(), connection };
                if let Err(error) = self.publish_pending(aid, &to).await {
                    tracing::debug!("a device is not told what is pending: {}", RpcError::from(error));
                }
            } else if Instant::now() < arrival.until {
                awaited.push(arrival);
            }
        }
        awaited
    }

    /// Publishes what a user should be asked about; returns how many events that were.
    pub(crate) async fn publish_pending(&self, user: &Aid, to: &Audience) -> Result<usize, Error> {
        let mut published = 0;
        for relation in self.store.pending_of(user.as_str(), MOST_PENDING).await? {
            let Some(agent) = self.store.agent(&relation.agent_id).await? else { continue };
            let scopes = scopes_of(&relation.reauth_scopes);
            let payload = manifest_payload(&agent, Some(&scopes));
            self.bus.publish(&Event::new(to.clone(), REAUTH_REQUIRED, &payload));
            published += 1;
        }
        Ok(published)
    }
}
