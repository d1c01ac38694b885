//! Those who wait for something new in a run: polling runners, event streams and subscribed connections.
//!
//! The log is the truth. Whoever waits is only told to look again, and looks from the seq that it has seen, so nothing is lost and nothing
//! comes twice whatever is missed here.

use kernel::Bus;
use parking_lot::Mutex;
use proto_schemas::requests::run::RunsChanged;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// After which everybody looks again: what other processes tell may be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

type Waiting = Arc<Mutex<HashMap<String, watch::Sender<u64>>>>;

/// The runs that somebody of this process waits for.
#[derive(Clone)]
pub(crate) struct Watched {
    bus: Bus,
    waiting: Waiting,
}

/// One who waits for a run.
pub(crate) struct RunWatch {
    run: String,
    waiting: Waiting,
    /// Taken only when this is dropped.
    told: Option<watch::Receiver<u64>>,
}

impl Watched {
    pub fn listen(bus: &Bus) -> Watched {
        let waiting = Waiting::default();
        let told = waiting.clone();
        bus.listen(move |event| {
            let Some(changed) = event.as_signal::<RunsChanged>() else { return };
            let waiting = told.lock();
            for run in changed.runs.iter().filter_map(|run| waiting.get(run)) {
                run.send_modify(|count| *count += 1);
            }
        });
        Watched { bus: bus.clone(), waiting }
    }

    /// Called after the commit.
    pub fn tell(&self, changed: &RunsChanged) {
        self.bus.signal(changed);
    }

    /// Begins to wait. What changes from now on is not missed.
    pub fn watch(&self, run: &str) -> RunWatch {
        let mut waiting = self.waiting.lock();
        let sender = waiting.entry(run.to_owned()).or_insert_with(|| watch::channel(0).0);
        RunWatch { run: run.to_owned(), told: Some(sender.subscribe()), waiting: self.waiting.clone() }
    }

    /// How many runs are waited for.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.waiting.lock().len()
    }
}

impl RunWatch {
    /// Until the run has changed since this was called last, or it is time to look again anyway, at most so long.
    pub async fn changed(&mut self, most: Duration) {
        let Some(told) = &mut self.told else { return };
        let _ = timeout(most.min(LOOK_AGAIN), told.changed()).await;
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        // Under the lock: of two that are dropped at once, the second sees that it was the last.
        self.told = None;
        if waiting.get(&self.run).is_some_and(|sender| sender.receiver_count() == 0) {
            waiting.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_changed(watch: &RunWatch) -> bool {
        watch.told.as_ref().unwrap().has_changed().unwrap()
    }

    #[tokio::test]
    async fn a_change_between_two_looks_is_not_missed_and_nobody_is_remembered() {
        let bus = Bus::local();
        let watched = Watched::listen(&bus);
        let (mut one, other) = (watched.watch("run_1"), watched.watch("run_1"));
        watched.tell(&RunsChanged { runs: vec!["run_1".to_owned(), "run_2".to_owned()] });
        assert!(has_changed(&one), "told before it looked");
        one.changed(Duration::from_secs(60)).await;
        assert!(!has_changed(&one));
        // Nothing comes any more, and it looks again all the same.
        one.changed(Duration::from_millis(1)).await;
        drop(one);
        assert_eq!(watched.count(), 1);
        drop(other);
        assert_eq!(watched.count(), 0);
    }
}
