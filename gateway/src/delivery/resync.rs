//! When events may have been missed, or a session was opened while a service was down: the services that are told of
//! sessions are told of every device that may have missed one, ca is asked whether the agent's certificate is still
//! active, and auth whether its tokens were revoked.

#[cfg(test)]
mod tests;

use super::session_notices::is_down;
use super::{EventDelivery, session_notices};
use crate::connection::Connection;
use futures_util::future::join_all;
use kernel::{Aid, Caller, DeviceId, Generation, SessionNotice};
use parking_lot::Mutex;
use proto_schemas::requests::{auth, ca};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Agents that are resynced at once: ten thousand of them must not ask at the same time.
const CHUNK: usize = 32;
/// How long to wait before a service that was down is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Agents that wait for a resync; at most those that are connected here.
#[derive(Default)]
pub struct Resync {
    aids: Mutex<HashSet<Aid>>,
    grew: Notify,
}

impl Resync {
    pub fn missed(&self, aids: impl IntoIterator<Item = Aid>) {
        self.aids.lock().extend(aids);
        self.grew.notify_one();
    }

    fn take(&self) -> Vec<Aid> {
        self.aids.lock().drain().collect()
    }
}

pub fn listen(delivery: &Arc<EventDelivery>) {
    let weak = Arc::downgrade(delivery);
    delivery.bus.on_resync(move |aids| {
        let Some(delivery) = weak.upgrade() else { return };
        // The bus does not know of short connections, and their certificates can be revoked as well.
        delivery.resync.missed(aids.into_iter().chain(delivery.sessions.agents_with_short()));
    });
    let delivery = delivery.clone();
    delivery.tracker.clone().spawn(async move {
        delivery.stop.run_until_cancelled(resync_missed(&delivery)).await;
    });
}

async fn resync_missed(delivery: &EventDelivery) {
    loop {
        delivery.resync.grew.notified().await;
        let mut again = Vec::new();
        for chunk in delivery.resync.take().chunks(CHUNK) {
            let settled = join_all(chunk.iter().map(|aid| resync_agent(delivery, aid))).await;
            again.extend(
                chunk.iter().zip(settled).filter(|(_, settled)| !settled).map(|(aid, _)| aid.clone()),
            );
        }
        if !again.is_empty() {
            tokio::time::sleep(RETRY_AFTER).await;
            delivery.resync.missed(again);
        }
    }
}

/// Gives whether it is done, or has to be tried again.
async fn resync_agent(delivery: &EventDelivery, aid: &Aid) -> bool {
    let connections = delivery.sessions.of_agent(aid);
    if connections.is_empty() {
        return true;
    }
    delivery.certificate_replaced(aid);
    match &delivery.mesh.known_cert("gateway", &ca::GetCert::of_aid(aid.as_str())).await {
        Ok(None) => {
            delivery.certificate_revoked(aid);
            return true;
        }
        Ok(Some(_)) => {}
        Err(error) if is_down(error) => return false,
        Err(error) => error.log("ca.get_cert"),
    }
    let asked = auth::TokensRevokedAt { aid: aid.to_string() };
    match delivery.mesh.ask(Caller::service("gateway"), &asked).await {
        Ok(last) => {
            if let Some(revoked_at) = last.revoked_at {
                delivery.sessions.tokens_revoked(aid, revoked_at);
            }
        }
        Err(error) if is_down(&error) => return false,
        Err(error) => error.log("auth.tokens_revoked_at"),
    }
    for (device_id, connection) in missed_by(&connections) {
        let notice = SessionNotice { aid: aid.clone(), device_id, connection };
        if !session_notices::resync(&delivery.mesh, &notice).await {
            return false;
        }
    }
    true
}

/// Each device with a long connection, once. Clients of the second generation do not all pull when an event shows them that
/// others are missing: their connections are named one by one.
fn missed_by(connections: &[Arc<Connection>]) -> Vec<(DeviceId, u64)> {
    let mut devices: HashMap<DeviceId, Vec<u64>> = HashMap::new();
    let long = connections.iter().filter(|connection| connection.is_long());
    for (connection, open) in long.filter_map(|connection| Some((connection, connection.session()?))) {
        let named = devices.entry(open.session.device.clone()).or_default();
        if open.session.generation == Generation::Second {
            named.push(connection.id);
        }
    }
    let mut missed = Vec::new();
    for (device, named) in devices {
        if named.is_empty() {
            missed.push((device, 0));
        } else {
            missed.extend(named.into_iter().map(|connection| (device.clone(), connection)));
        }
    }
    missed
}
