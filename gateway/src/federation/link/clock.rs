//! What a link does as time passes: calls that waited too long are told so, and a link that is idle, silent, too old or
//! not trusted any more ends.

use super::{End, Link, broken};
use crate::federation::card;
use crate::federation::job::Job;
use crate::federation::{Federation, Peer};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

/// How often deadlines are looked at while something is under way, and everything else.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(300);
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_PATIENCE: Duration = Duration::from_secs(10);
/// Longer than any call may take. Whoever has not answered by then does not answer any more.
const UNANSWERED: Duration = Duration::from_secs(30);

/// When what happened last.
pub(super) struct Times {
    looked: Instant,
    measured: Instant,
    /// When something was heard, when a ping was sent since, when there was something to do.
    heard: Instant,
    pinged: Option<Instant>,
    pub(super) busy: Instant,
}

impl Times {
    pub(super) fn new(now: Instant) -> Times {
        Times { looked: now, measured: now, heard: now, pinged: None, busy: now }
    }

    pub(super) fn heard(&mut self, now: Instant) {
        (self.heard, self.pinged) = (now, None);
    }
}

impl Link<'_> {
    pub(super) fn next_look(&self) -> Instant {
        self.times.looked + if self.flights.is_empty() { REST } else { LOOK_EVERY }
    }

    /// Looks at everything that has to do with time.
    pub(super) async fn look(&mut self, fed: &Federation, now: Instant) -> Result<(), End> {
        self.times.looked = now;
        self.look_at_deadlines(fed, now);
        if self.flights.oldest(now).is_some_and(|waited| waited > UNANSWERED) {
            return Err(broken("its gateway leaves calls unanswered"));
        }
        if now >= self.linked.until {
            self.retires = true;
        }
        self.check_trust(fed)?;
        if self.flights.is_empty() && now - self.times.busy > IDLE && !self.line.has_waiting() {
            return Err(End::Done);
        }
        self.check_life(now).await
    }

    fn look_at_deadlines(&mut self, fed: &Federation, now: Instant) {
        self.line.end_overdue(now, Job::end_late);
        self.flights.end_overdue(now);
        self.line.saw_oldest(self.line.oldest_waiting(now).max(self.flights.oldest(now).unwrap_or_default()));
        if now - self.times.measured >= REST {
            self.times.measured = now;
            fed.peers.measure();
        }
    }

    /// A root may have been taken from the list: then the link goes, too.
    fn check_trust(&mut self, fed: &Federation) -> Result<(), End> {
        let roots = fed.trust.roots();
        if Arc::ptr_eq(&roots, &self.linked.roots) {
            return Ok(());
        }
        let Peer { issuer, gateway_aid, certificate } = &self.linked.peer;
        let now = fed.clock.now_seconds();
        card::check(&fed.trust, issuer, gateway_aid, certificate.pem(), &self.linked.chain, now)
            .map_err(|error| broken(format!("it is not trusted any more: {error}")))?;
        self.linked.roots = roots;
        Ok(())
    }

    async fn check_life(&mut self, now: Instant) -> Result<(), End> {
        match self.times.pinged {
            Some(at) if now - at > PONG_PATIENCE => Err(broken("its gateway fell silent")),
            None if now - self.times.heard > PING_AFTER => {
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
    use crate::federation::dial::{self, Linked};
    use crate::federation::line::Line;
    use crate::federation::tests::rig::{LONG, Rig, THEIRS, relay};
    use crate::federation::tests::there::Guest;
    use futures_util::StreamExt as _;
    use serde_json::json;
    use tokio::time::timeout;

    const SECOND: Duration = Duration::from_secs(1);

    /// A link as both sides have it, on a line of its own.
    async fn linked(rig: &Rig) -> (Arc<Line>, Linked, Guest) {
        let line = Arc::new(Line::new(THEIRS, &Arc::default(), &rig.fed.metrics));
        let (linked, there) = tokio::join!(dial::dial(&rig.fed, THEIRS), rig.link());
        (line, linked.unwrap_or_else(|failure| panic!("{}", failure.sentence)), there)
    }

    fn wait_on(line: &Arc<Line>, within: Duration) {
        let text = relay("send", "r1", json!({})).text().unwrap();
        line.take(|waiting| waiting.push_back(Job::new(line, text, None, within)));
    }

    #[tokio::test]
    async fn a_link_that_is_idle_for_five_minutes_ends() {
        let rig = Rig::new().await;
        let (line, linked, _there) = linked(&rig).await;
        let mut link = Link::new(&line, linked);
        let since = link.times.busy;
        assert!(link.look(&rig.fed, since + IDLE).await.is_ok());
        link.times.heard(since + IDLE);
        wait_on(&line, 2 * IDLE);
        assert!(link.look(&rig.fed, since + IDLE + SECOND).await.is_ok(), "somebody waits");
        line.take(|waiting| waiting.clear());
        assert!(matches!(link.look(&rig.fed, since + IDLE + SECOND).await, Err(End::Done)));
    }

    #[tokio::test]
    async fn a_link_on_which_nothing_is_heard_asks_and_ends_if_nobody_answers() {
        let rig = Rig::new().await;
        let (line, linked, mut there) = linked(&rig).await;
        let mut link = Link::new(&line, linked);
        let since = link.times.heard;
        assert!(link.look(&rig.fed, since + PING_AFTER).await.is_ok());
        assert_eq!(link.times.pinged, None, "not yet");
        let asked = since + PING_AFTER + SECOND;
        assert!(link.look(&rig.fed, asked).await.is_ok());
        there.ping().await;

        assert!(link.look(&rig.fed, asked + PONG_PATIENCE).await.is_ok(), "it may take its time");
        let answer = timeout(LONG, link.linked.socket.next()).await.unwrap();
        assert!(matches!(answer, Some(Ok(Message::Pong(_)))), "{answer:?}");
        assert!(link.hear(answer).is_ok());
        assert_eq!(link.times.pinged, None, "it lives");

        let asked = link.times.heard + PING_AFTER + SECOND;
        assert!(link.look(&rig.fed, asked).await.is_ok());
        let end = link.look(&rig.fed, asked + PONG_PATIENCE + SECOND).await;
        assert!(matches!(end, Err(End::Broken(reason)) if reason == "its gateway fell silent"));
    }

    #[tokio::test]
    async fn a_link_retires_after_a_day_and_takes_nothing_more() {
        let rig = Rig::new().await;
        let before = Instant::now();
        let (line, linked, _there) = linked(&rig).await;
        let (day, until) = (Duration::from_secs(24 * 3600), linked.until);
        assert!(before + day <= until && until <= Instant::now() + day);
        let mut link = Link::new(&line, linked);
        link.times.busy = until;
        link.times.heard(until);
        wait_on(&line, 2 * day);
        assert!(link.look(&rig.fed, until - SECOND).await.is_ok());
        assert!(!link.retires);
        assert!(link.look(&rig.fed, until).await.is_ok());
        let (end, under_way) = timeout(LONG, link.speak(&rig.fed)).await.unwrap();
        assert!(matches!(end, End::Done) && under_way.is_empty());
        assert!(line.has_waiting(), "what waits is for the next link");
    }

    #[tokio::test]
    async fn a_link_whose_calls_are_not_answered_ends() {
        let rig = Rig::new().await;
        let (line, linked, _there) = linked(&rig).await;
        let mut link = Link::new(&line, linked);
        wait_on(&line, 2 * UNANSWERED);
        assert!(link.send().await.is_ok());
        let sent = link.times.busy;
        link.times.heard(sent + UNANSWERED);
        assert!(link.look(&rig.fed, sent + UNANSWERED).await.is_ok());
        let end = link.look(&rig.fed, sent + UNANSWERED + SECOND).await;
        assert!(matches!(end, Err(End::Broken(reason)) if reason == "its gateway leaves calls unanswered"));
    }
}
