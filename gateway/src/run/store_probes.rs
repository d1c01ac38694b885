//! Asks the stores of this process now and then whether they answer, so that `/health` can say so at once.

use kernel::{Stores, Task, World};
use std::time::Duration;

/// Whoever reads `/health` knows of a store that went away so much later, and a moment that the store has to answer.
const EVERY: Duration = Duration::from_secs(2);

/// Until the server stops. A process without a store has nothing to ask.
pub fn watch(world: &World) {
    if world.stores.up().is_empty() {
        return;
    }
    let (stores, stop) = (world.stores.clone(), world.stop.clone());
    let task = Task::new("probe", move || {
        let (stores, stop) = (stores.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(ask(&stores)).await;
            // What asks a store holds it open.
            stores.forget_probes();
        }
    });
    world.tasks.run(&world.tracker, &world.stop, "stores", task);
}

async fn ask(stores: &Stores) {
    loop {
        stores.probe().await;
        tokio::time::sleep(EVERY).await;
    }
}
