//! A bystander notices that a server has no time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::TestServer;

/// How often is pinged.
const PAUSE: Duration = Duration::from_millis(10);
/// An agent that does nothing but ping, from an address of its own.
pub struct PingingBystander {
    pings: JoinSet<()>,
    slowest: Arc<Mutex<Option<SlowPing>>>,
    during: Arc<Mutex<&'static str>>,
}

/// A ping, and which method was called meanwhile.
#[derive(Clone, Copy)]
pub struct SlowPing {
    pub during: &'static str,
    pub took: Duration,
}

impl PingingBystander {
    pub async fn begin(server: &Arc<TestServer>) -> PingingBystander {
        let agent = server.agent("bystander").await;
        let (slowest, during) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new("")));
        let mut pings = JoinSet::new();
        let (found, now) = (Arc::clone(&slowest), Arc::clone(&during));
        pings.spawn(async move {
            loop {
                let (during, began) = (*now.lock(), Instant::now());
                agent.call("meta.ping", &json!({})).await;
                note(&found, SlowPing { during, took: began.elapsed() });
                tokio::time::sleep(PAUSE).await;
            }
        });
        PingingBystander { pings, slowest, during }
    }

    /// From now on this method is called.
    pub fn now(&self, method: &'static str) {
        *self.during.lock() = method;
    }

    /// The slowest ping of all.
    pub async fn end(mut self) -> SlowPing {
        let over = self.pings.try_join_next().is_some();
        assert!(!over, "the bystander was disconnected");
        self.pings.shutdown().await;
        self.slowest.lock().expect("it has pinged")
    }
}

/// Keeps the slowest.
fn note(slowest: &Mutex<Option<SlowPing>>, ping: SlowPing) {
    let mut slowest = slowest.lock();
    if slowest.is_none_or(|slow| slow.took < ping.took) {
        *slowest = Some(ping);
    }
}
