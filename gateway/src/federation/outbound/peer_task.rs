//! The one task of a peer queue: it dials the domain and sends the queue until it is empty, and stops after a failure.

use super::dial::{self, DIAL_TIMEOUT, DialledLink};
use super::peer_link::{LinkEnd, PeerLink};
use super::peer_queue::{PeerQueue, QueueTask};
use crate::federation::Federation;
use crate::federation::errors::{DialPhase, LinkFailure};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How often deadlines are checked while a link is being made.
const DEADLINES_EVERY: Duration = Duration::from_millis(100);

pub async fn run(task: QueueTask, fed: Arc<Federation>) {
    send_all(&task.queue, &fed).await;
    task.stopped();
}

/// Dials and sends until the queue is empty, or the domain cannot be reached. The queue knows on return that it has no task.
async fn send_all(queue: &Arc<PeerQueue>, fed: &Arc<Federation>) {
    let counters = &queue.counters;
    loop {
        let dialled = match dial(queue, fed).await {
            Ok(dialled) => dialled,
            Err(failure) => return queue.link_failed(&failure, |wait| fed.ids.jitter(wait)),
        };
        let began = Instant::now();
        let url = dialled.url.to_string();
        tracing::info!(peer.issuer = %queue.issuer(), "{} is connected at {url}", queue.issuer());
        counters.metrics.federation_links.inc();
        queue.link_up(url);
        fed.peers.open_links.add(&dialled.open);
        fed.peer_is_reachable(queue.issuer());
        let (end, in_flight) = PeerLink::new(queue, dialled).run(fed).await;
        counters.metrics.federation_links.dec();
        counters.in_flight.store(0, Ordering::Relaxed);
        let now = Instant::now();
        queue.take_back(in_flight, now);
        if let LinkEnd::Broken(reason) = end {
            tracing::warn!(peer.issuer = %queue.issuer(), "the link to {} ended: {reason}", queue.issuer());
            if queue.link_broke(&reason, now - began) {
                let failure = LinkFailure::new(DialPhase::Connect, "link_lost", reason);
                return queue.link_failed(&failure, |wait| fed.ids.jitter(wait));
            }
        }
        if queue.stop_if_empty() {
            return;
        }
    }
}

/// A link to the domain. Meanwhile relays whose deadline passes are ended.
async fn dial(queue: &Arc<PeerQueue>, fed: &Arc<Federation>) -> Result<DialledLink, LinkFailure> {
    queue.link_connecting();
    let dialling = async {
        let permits = fed.peers.domains.permits(queue.asker());
        let Ok(Some(_permits)) = timeout(DIAL_TIMEOUT, permits).await else {
            let sentence = "too many other domains are being dialled";
            return Err(LinkFailure::new(DialPhase::Connect, "busy", sentence));
        };
        dial::dial(fed, queue.issuer()).await
    };
    tokio::pin!(dialling);
    loop {
        tokio::select! {
            dialled = &mut dialling => return dialled,
            () = sleep(DEADLINES_EVERY) => {
                let sentence = "no link was made before the deadline of the call";
                let failure = LinkFailure::new(DialPhase::Connect, "connect_timeout", sentence);
                queue.end_overdue(Instant::now(), |relay| relay.end_unreachable(&failure, None));
            }
        }
    }
}
