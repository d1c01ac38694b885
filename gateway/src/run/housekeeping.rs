//! What the door does every few seconds, whoever is there: it forgets, and it looks at what changed.

use crate::door::Door;
use crate::events;
use std::sync::Arc;
use std::time::Duration;

pub async fn housekeeping(door: Arc<Door>) {
    let mut every = tokio::time::interval(Duration::from_secs(10));
    let mut changes = door.mesh.changes();
    let mut losses = door.mesh.losses("message");
    loop {
        tokio::select! {
            _ = every.tick() => {
                door.limits.forget_quiet();
                if let Some(federation) = door.federation() {
                    federation.forget_quiet();
                }
                door.order.keep(|aid| !door.registry.of_agent(aid).is_empty());
            }
            _ = changes.changed() => {}
            () = door.stop.cancelled() => return,
        }
        events::refresh_capabilities(&door);
        // Whoever is killed between his commit and his bell leaves a letter that nobody was told of.
        let lost = door.mesh.losses("message");
        if std::mem::replace(&mut losses, lost) != lost {
            door.gap.missed(door.registry.agents());
        }
    }
}
