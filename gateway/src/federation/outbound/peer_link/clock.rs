//! What a peer link does as time passes: relays past their deadline are ended, and a link that is idle, silent, too old or
//! not trusted any more is closed.

use super::{LinkEnd, PeerLink, broken};
use crate::federation::Federation;
use crate::federation::outbound::pending_relay::PendingRelay;
use crate::federation::trust::{PeerGateway, check_gateway};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

/// How often everything is checked while frames are pending, and while none are.
const CHECK_EVERY: Duration = Duration::from_millis(100);
const IDLE_CHECK_EVERY: Duration = Duration::from_secs(1);
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than any relay may take: a gateway that has not answered a frame by then will not answer it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// When each of these last happened.
pub(super) struct LinkTimes {
    checked: Instant,
    measured: Instant,
    received: Instant,
    /// A ping that was sent since something was received.
    pinged: Option<Instant>,
    /// Relays were sent.
    pub(super) sent: Instant,
}

impl LinkTimes {
    pub(super) fn new(now: Instant) -> LinkTimes {
        LinkTimes { checked: now, measured: now, received: now, pinged: None, sent: now }
    }

    pub(super) fn received(&mut self, now: Instant) {
        (self.received, self.pinged) = (now, None);
    }
}

impl PeerLink<'_> {
    pub(super) fn next_check(&self) -> Instant {
        self.times.checked + if self.pending.is_empty() { IDLE_CHECK_EVERY } else { CHECK_EVERY }
    }

    /// Checks everything that depends on time.
    pub(super) async fn check(&mut self, fed: &Federation, now: Instant) -> Result<(), LinkEnd> {
        self.times.checked = now;
        self.check_deadlines(fed, now);
        if self.pending.oldest(now).is_some_and(|waited| waited > ANSWER_TIMEOUT) {
            return Err(broken("its gateway leaves relays unanswered"));
        }
        if now >= self.dialled.until {
            self.retires = true;
        }
        self.check_trust(fed)?;
        if self.pending.is_empty() && now - self.times.sent > IDLE_TIMEOUT && !self.queue.has_waiting() {
            return Err(LinkEnd::Closed);
        }
        self.check_alive(now).await
    }

    fn check_deadlines(&mut self, fed: &Federation, now: Instant) {
        self.queue.end_overdue(now, PendingRelay::end_timed_out);
        self.pending.end_overdue(now);
        let oldest = self.queue.oldest_waiting(now).max(self.pending.oldest(now).unwrap_or_default());
        self.queue.counters.set_oldest(oldest);
        if now - self.times.measured >= IDLE_CHECK_EVERY {
            self.times.measured = now;
            fed.peers.measure_oldest();
        }
    }

    /// The certificate of the other gateway may have been revoked, and the operator may have removed the root that it was trusted by.
    fn check_trust(&mut self, fed: &Federation) -> Result<(), LinkEnd> {
        if self.dialled.open.is_revoked() {
            return Err(broken("the certificate of its gateway is revoked"));
        }
        let roots = fed.trust.roots();
        if Arc::ptr_eq(&roots, &self.dialled.roots) {
            return Ok(());
        }
        let PeerGateway { issuer, gateway_aid, certificate, .. } = &self.dialled.peer;
        let now = fed.clock.now_seconds();
        check_gateway(&fed.trust, issuer, gateway_aid, certificate.pem(), &self.dialled.chain, now)
            .map_err(|error| broken(format!("its gateway is no longer trusted: {error}")))?;
        self.dialled.roots = roots;
        Ok(())
    }

    async fn check_alive(&mut self, now: Instant) -> Result<(), LinkEnd> {
        match self.times.pinged {
            Some(at) if now - at > PONG_TIMEOUT => Err(broken("its gateway does not answer a ping")),
            None if now - self.times.received > PING_AFTER => {
                self.times.pinged = Some(now);
                self.start_send(Message::Ping(Default::default()))?;
                self.flush().await
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::outbound::dial::{self, DialledLink};
    use crate::federation::outbound::peer_queue::PeerQueue;
    use crate::federation::tests::support::remote_gateway::AcceptedLink;
    use crate::federation::tests::support::two_domains::{LONG, THEIRS, TwoDomains, relay};
    use futures_util::StreamExt as _;
    use serde_json::json;
    use tokio::time::timeout;

    const SECOND: Duration = Duration::from_secs(1);

    /// Both ends of a link, with a queue of its own.
    async fn dialled(domains: &TwoDomains) -> (Arc<PeerQueue>, DialledLink, AcceptedLink) {
        let queue = Arc::new(PeerQueue::new(THEIRS, &Arc::default(), &domains.fed.metrics));
        let (dialled, remote) = tokio::join!(dial::dial(&domains.fed, THEIRS), domains.accepted_link());
        (queue, dialled.unwrap_or_else(|failure| panic!("{}", failure.sentence)), remote)
    }

    fn push(queue: &Arc<PeerQueue>, within: Duration) {
        let text = relay("send", "r1", json!({})).text().unwrap();
        let relay = PendingRelay::new(&queue.counters, text, None, within);
        queue.take(|waiting| waiting.push_back(relay));
    }

    #[tokio::test]
    async fn a_link_that_is_idle_for_five_minutes_ends() {
        let domains = TwoDomains::new().await;
        let (queue, dialled, _remote) = dialled(&domains).await;
        let mut link = PeerLink::new(&queue, dialled);
        let since = link.times.sent;
        assert!(link.check(&domains.fed, since + IDLE_TIMEOUT).await.is_ok());
        link.times.received(since + IDLE_TIMEOUT);
        push(&queue, 2 * IDLE_TIMEOUT);
        assert!(link.check(&domains.fed, since + IDLE_TIMEOUT + SECOND).await.is_ok(), "a relay waits");
        queue.take(|waiting| waiting.clear());
        assert!(matches!(
            link.check(&domains.fed, since + IDLE_TIMEOUT + SECOND).await,
            Err(LinkEnd::Closed)
        ));
    }

    #[tokio::test]
    async fn a_silent_link_is_pinged_and_ends_without_a_pong() {
        let domains = TwoDomains::new().await;
        let (queue, dialled, mut remote) = dialled(&domains).await;
        let mut link = PeerLink::new(&queue, dialled);
        let since = link.times.received;
        assert!(link.check(&domains.fed, since + PING_AFTER).await.is_ok());
        assert_eq!(link.times.pinged, None, "not yet");
        let pinged = since + PING_AFTER + SECOND;
        assert!(link.check(&domains.fed, pinged).await.is_ok());
        remote.ping().await;

        assert!(link.check(&domains.fed, pinged + PONG_TIMEOUT).await.is_ok(), "the pong may still come");
        let answer = timeout(LONG, link.dialled.socket.next()).await.unwrap();
        assert!(matches!(answer, Some(Ok(Message::Pong(_)))), "{answer:?}");
        assert!(link.read(answer).is_ok());
        assert_eq!(link.times.pinged, None, "the pong came");

        let pinged = link.times.received + PING_AFTER + SECOND;
        assert!(link.check(&domains.fed, pinged).await.is_ok());
        let end = link.check(&domains.fed, pinged + PONG_TIMEOUT + SECOND).await;
        assert!(
            matches!(end, Err(LinkEnd::Broken(reason)) if reason == "its gateway does not answer a ping")
        );
    }

    #[tokio::test]
    async fn a_link_retires_after_a_day_and_sends_nothing_more() {
        let domains = TwoDomains::new().await;
        let before = Instant::now();
        let (queue, dialled, _remote) = dialled(&domains).await;
        let (day, until) = (Duration::from_secs(24 * 3600), dialled.until);
        assert!(before + day <= until && until <= Instant::now() + day);
        let mut link = PeerLink::new(&queue, dialled);
        link.times.sent = until;
        link.times.received(until);
        push(&queue, 2 * day);
        assert!(link.check(&domains.fed, until - SECOND).await.is_ok());
        assert!(!link.retires);
        assert!(link.check(&domains.fed, until).await.is_ok());
        let (end, in_flight) = timeout(LONG, link.run(&domains.fed)).await.unwrap();
        assert!(matches!(end, LinkEnd::Closed) && in_flight.is_empty());
        assert!(queue.has_waiting(), "the queue is left for the next link");
    }

    #[tokio::test]
    async fn a_link_whose_relays_are_not_answered_ends() {
        let domains = TwoDomains::new().await;
        let (queue, dialled, _remote) = dialled(&domains).await;
        let mut link = PeerLink::new(&queue, dialled);
        push(&queue, 2 * ANSWER_TIMEOUT);
        assert!(link.send().await.is_ok());
        let sent = link.times.sent;
        link.times.received(sent + ANSWER_TIMEOUT);
        assert!(link.check(&domains.fed, sent + ANSWER_TIMEOUT).await.is_ok());
        let end = link.check(&domains.fed, sent + ANSWER_TIMEOUT + SECOND).await;
        assert!(
            matches!(end, Err(LinkEnd::Broken(reason)) if reason == "its gateway leaves relays unanswered")
        );
    }
}
