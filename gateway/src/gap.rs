//! When bells may have been missed: the message room is asked to ring again for every device that may have missed one.

use crate::door::Door;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::to_raw_value;
use services::kernel::{Aid, Bus, Caller, DeviceId, codes};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Devices asked for at once: ten thousand sessions come back one after the other, not all together.
const CHUNK: usize = 32;
/// Before a room that was not there is asked again, and before one that did not answer is.
const PAUSE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

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
        if !std::mem::replace(&mut waits.busy, true) {
            door.tracker.clone().spawn(look_after(door, waiting.clone()));
        }
    });
}

async fn look_after(door: Arc<Door>, waiting: Arc<Mutex<Waiting>>) {
    while let Some(aids) = next(&waiting) {
        let mut again = Vec::new();
        for chunk in devices(&door, &aids).chunks(CHUNK) {
            let asked = chunk.iter().map(|(aid, device)| wake(&door, aid, device));
            let Some(woken) = door.stop.run_until_cancelled(join_all(asked)).await else { return };
            let failed = chunk.iter().zip(woken).filter(|(_, woken)| !woken);
            again.extend(failed.map(|((aid, _), _)| aid.clone()));
        }
        if !again.is_empty() {
            waiting.lock().aids.extend(again);
            if door.stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                return;
            }
        }
    }
}

fn next(waiting: &Mutex<Waiting>) -> Option<HashSet<Aid>> {
    let mut waits = waiting.lock();
    waits.busy = !waits.aids.is_empty();
    waits.busy.then(|| std::mem::take(&mut waits.aids))
}

/// The devices of these agents that have a long connection here, each once.
fn devices(door: &Door, aids: &HashSet<Aid>) -> Vec<(Aid, DeviceId)> {
    let mut devices = HashSet::new();
    for aid in aids {
        for link in door.registry.of_agent(aid).iter().filter(|link| link.is_long()) {
            devices.extend(link.bound().map(|bound| (aid.clone(), bound.session.device.clone())));
        }
    }
    devices.into_iter().collect()
}

/// Gives whether that is settled: a room that is away is asked again, one that does not know the method is not.
async fn wake(door: &Door, aid: &Aid, device: &DeviceId) -> bool {
    let params = to_raw_value(&json!({ "aid": aid, "device_id": device })).ok();
    let asked = door.mesh.call(Caller::room("gateway"), "message.wake", params);
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            let away = [codes::UNAVAILABLE.code, codes::SERVICE_STOPPING.code];
            !away.contains(&error.code())
        }
        Err(_) => false,
    }
}
