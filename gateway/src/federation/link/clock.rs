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
