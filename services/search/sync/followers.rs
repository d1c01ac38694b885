//! Those who copy our directory: they are told when it changes, so that they need not ask all the time.

use crate::cursor::ChangeCursor;
use crate::{Error, SearchService};
use futures_util::StreamExt as _;
use futures_util::stream;
use kernel::{Caller, RpcError, forward_for_service};
use parking_lot::Mutex;
use proto_schemas::Request as _;
use proto_schemas::requests::search::Notify;
use std::collections::HashMap;
use std::time::Duration;

/// How often it is written down that a domain copies from us.
const REMEMBER_EVERY_MS: i64 = 60_000;
/// What changes together is told once.
const PAUSE: Duration = Duration::from_millis(100);
const AT_ONCE: usize = 8;
const TIMEOUT_MS: u64 = 3000;

/// When each follower was written down last, by this process.
#[derive(Default)]
pub(crate) struct Followers(Mutex<HashMap<String, i64>>);

impl SearchService {
    pub(crate) async fn remember_follower(&self, issuer: &str) -> Result<(), Error> {
        let now = self.clock.now_ms();
        {
            let mut seen = self.followers.0.lock();
            if seen.get(issuer).is_some_and(|at| now - at < REMEMBER_EVERY_MS) {
                return Ok(());
            }
            seen.retain(|_, at| now - *at < REMEMBER_EVERY_MS);
            seen.insert(issuer.to_owned(), now);
        }
        self.store.add_follower(issuer, now).await?;
        Ok(())
    }

    /// Runs until the server stops.
    pub(super) async fn tell_followers(&self) {
        loop {
            self.wake.followers.notified().await;
            tokio::time::sleep(PAUSE).await;
            if let Err(error) = self.tell_all().await {
                tracing::debug!("replicas were not notified of a change: {error}");
            }
        }
    }

    async fn tell_all(&self) -> Result<(), Error> {
        let head = ChangeCursor(self.store.state().await?.sequence).to_string();
        let notify = Notify { change_cursor_head: head };
        let told = stream::iter(self.store.followers().await?).for_each_concurrent(AT_ONCE, |issuer| {
            let notify = &notify;
            async move {
                // A hint: whoever does not get it asks a little later.
                if let Err(error) = self.tell(&issuer, notify).await {
                    tracing::debug!(peer.issuer = issuer, "{issuer} was not notified of a change: {error}");
                }
            }
        });
        told.await;
        Ok(())
    }

    async fn tell(&self, issuer: &str, notify: &Notify) -> Result<(), RpcError> {
        let mut forward = forward_for_service(issuer, Notify::METHOD, notify)?;
        forward.timeout_ms = Some(TIMEOUT_MS);
        self.mesh.forward("search", &Caller::service("search"), forward).await?;
        Ok(())
    }
}
