//! When bells may have been missed: the message room is asked to ring again for every device that may have missed one, and
//! the authority whether it still vouches for the agent.

use crate::door::Door;
use crate::events;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use services::kernel::{Aid, Bus, Caller, DeviceId, KnownCert, RpcError, codes};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Agents looked after at once: ten thousand of them one after the other, not all together.
const CHUNK: usize = 32;
/// Before a room that was not there is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Agents that wait to be looked after; at most those that are connected here.
#[derive(Default)]
struct Waiting {
    aids: HashSet<Aid>,
    /// Whether somebody is at it.
    busy: bool,
}

pub fn listen(door: &Arc<Door>, bus: &Bus) {
    let (door, waiting) = (Arc::downgrade(door), Arc::<Mutex<Waiting>>::default());
    bus.on_gap(move |aids| {
        let Some(door) = door.upgrade().filter(|door| !door.stop.is_cancelled()) else { return };
        let mut waits = waiting.lock();
        waits.aids.extend(aids);
        // The bus does not know of short connections, and they can be revoked as well.
        waits.aids.extend(door.registry.agents_with_short());
        if !std::mem::replace(&mut waits.busy, true) {
            door.tracker.clone().spawn(look_after(door, waiting.clone()));
        }
    });
}

async fn look_after(door: Arc<Door>, waiting: Arc<Mutex<Waiting>>) {
    while let Some(aids) = next(&waiting) {
        let mut again = Vec::new();
        for chunk in aids.chunks(CHUNK) {
            let asked = join_all(chunk.iter().map(|aid| agent(&door, aid)));
            let Some(settled) = door.stop.run_until_cancelled(asked).await else { return };
            again.extend(
                chunk.iter().zip(settled).filter(|(_, settled)| !settled).map(|(aid, _)| aid.clone()),
            );
        }
        if !again.is_empty() {
            waiting.lock().aids.extend(again);
            if door.stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                return;
            }
        }
    }
}

fn next(waiting: &Mutex<Waiting>) -> Option<Vec<Aid>> {
    let mut waits = waiting.lock();
    waits.busy = !waits.aids.is_empty();
    waits.busy.then(|| waits.aids.drain().collect())
}

/// Gives whether that is settled, or has to be tried again.
async fn agent(door: &Door, aid: &Aid) -> bool {
    let links = door.registry.of_agent(aid);
    if links.is_empty() {
        return true;
    }
    events::certificate_replaced(door, aid);
    let vouched: Result<KnownCert, RpcError> = door.ask("ca.get_cert", &json!({ "aid": aid })).await;
    match &vouched {
        Ok(known) if !known.found => {
            events::certificate_revoked(door, aid);
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
        // A room that is not there is asked again; one that does not know the method never will.
        let woken = door.mesh.ask::<Value>(Caller::room("gateway"), "message.wake", &params).await;
        if woken.is_err_and(|error| is_away(&error)) {
            return false;
        }
    }
    true
}

fn is_away(error: &RpcError) -> bool {
    [codes::UNAVAILABLE.code, codes::SERVICE_STOPPING.code].contains(&error.code())
}
