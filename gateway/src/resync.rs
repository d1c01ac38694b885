//! When bells may have been missed, or a device came while the message service was away: the message service is asked to ring
//! again for every device that may have missed one, and the authority whether it still vouches for the agent.

#[cfg(test)]
mod tests;

use crate::events;
use crate::gateway::Gateway;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use services::kernel::{Aid, Bus, Caller, DeviceId, KnownCert, RpcError, codes};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Agents looked after at once: ten thousand of them one after the other, not all together.
const CHUNK: usize = 32;
/// Before a service that was not there is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Agents that wait to be looked after; at most those that are connected here.
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

pub fn listen(gateway: &Arc<Gateway>, bus: &Bus) {
    let weak = Arc::downgrade(gateway);
    bus.on_resync(move |aids| {
        let Some(gateway) = weak.upgrade() else { return };
        // The bus does not know of short connections, and they can be revoked as well.
        gateway.resync.missed(aids.into_iter().chain(gateway.registry.agents_with_short()));
    });
    let gateway = gateway.clone();
    gateway.tracker.clone().spawn(async move {
        let stop = gateway.stop.clone();
        stop.run_until_cancelled(look_after(&gateway)).await;
    });
}

async fn look_after(gateway: &Gateway) {
    loop {
        gateway.resync.grew.notified().await;
        let mut again = Vec::new();
        for chunk in gateway.resync.take().chunks(CHUNK) {
            let settled = join_all(chunk.iter().map(|aid| agent(gateway, aid))).await;
            again.extend(
                chunk.iter().zip(settled).filter(|(_, settled)| !settled).map(|(aid, _)| aid.clone()),
            );
        }
        if !again.is_empty() {
            tokio::time::sleep(PAUSE).await;
            gateway.resync.missed(again);
        }
    }
}

/// Gives whether that is settled, or has to be tried again.
async fn agent(gateway: &Gateway, aid: &Aid) -> bool {
    let links = gateway.registry.of_agent(aid);
    if links.is_empty() {
        return true;
    }
    events::certificate_replaced(gateway, aid);
    let vouched: Result<KnownCert, RpcError> = gateway.ask("ca.get_cert", &json!({ "aid": aid })).await;
    match &vouched {
        Ok(known) if !known.found => {
            events::certificate_revoked(gateway, aid);
            return true;
        }
        Ok(_) => {}
        Err(error) if is_away(error) => return false,
        Err(error) => error.log("ca.get_cert"),
    }
    let long = links.iter().filter(|link| link.is_long()).filter_map(|link| link.bound());
    let devices: HashSet<DeviceId> = long.map(|bound| bound.session.device.clone()).collect();
    for device in devices {
        let params = json!({ "aid": aid, "device_id": device });
        // A service that is not there is asked again; one that does not know the method never will.
        let woken = gateway.mesh.ask::<Value>(Caller::service("gateway"), "message.wake", &params).await;
        if woken.is_err_and(|error| is_away(&error)) {
            return false;
        }
    }
    true
}

fn is_away(error: &RpcError) -> bool {
    [codes::UNAVAILABLE.code, codes::SERVICE_STOPPING.code].contains(&error.code())
}
