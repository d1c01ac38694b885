//! What was received in the last ten minutes and must not count twice: hellos by their nonce, relays by their id.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

const REMEMBERED_MS: i64 = 600_000;
const NONCES: usize = 100_000;
/// More hellos than a well-behaved domain sends in ten minutes.
const NONCES_PER_DOMAIN: usize = 5_000;
const RELAYS: usize = 200_000;
const RELAY_BYTES: usize = 64 << 20;

/// The nonces of the hellos of other gateways. When it is full, every hello is refused, because a nonce that was forgotten
/// could be replayed. The limit per domain keeps one domain from filling it for the others.
#[derive(Default)]
pub struct HelloNonces(Mutex<UsedNonces>);

#[derive(Default)]
struct UsedNonces {
    seen: HashMap<Arc<str>, HashSet<Arc<str>>>,
    order: VecDeque<(i64, Arc<str>, Arc<str>)>,
}

impl HelloNonces {
    /// Whether this one is new; from now on it is not.
    pub fn take(&self, issuer: &str, nonce: &str, now: i64) -> bool {
        let mut used = self.0.lock();
        used.forget(now);
        let UsedNonces { seen, order } = &mut *used;
        let known = seen.get(issuer);
        if order.len() >= NONCES
            || known.is_some_and(|known| known.len() >= NONCES_PER_DOMAIN || known.contains(nonce))
        {
            return false;
        }
        let (issuer, nonce): (Arc<str>, Arc<str>) = (issuer.into(), nonce.into());
        seen.entry(issuer.clone()).or_default().insert(nonce.clone());
        order.push_back((now + REMEMBERED_MS, issuer, nonce));
        true
    }
}

impl UsedNonces {
    fn forget(&mut self, now: i64) {
        while self.order.front().is_some_and(|(until, ..)| *until <= now) {
            let Some((_, issuer, nonce)) = self.order.pop_front() else { return };
            let Some(known) = self.seen.get_mut(&issuer) else { continue };
            known.remove(&nonce);
            if known.is_empty() {
                self.seen.remove(&issuer);
            }
        }
    }
}

/// The domain it is from, and its id.
type RelayKey = (Arc<str>, Arc<str>);
pub type AnswerText = Arc<str>;

/// The answers to the relays of the last ten minutes, for gateways that send a relay again because they did not get its
/// answer.
#[derive(Default)]
pub struct SeenRelays(Mutex<RelayMemory>);

#[derive(Default)]
struct RelayMemory {
    known: HashMap<RelayKey, SeenRelay>,
    order: VecDeque<(i64, RelayKey)>,
    bytes: usize,
}

enum SeenRelay {
    /// Duplicates that arrive meanwhile wait for the same answer.
    InProgress(Vec<oneshot::Sender<AnswerText>>),
    Answered(AnswerText),
}

/// What is known of a relay that was received.
pub enum RelayLookup {
    /// It is new, and is to be carried out.
    New(RelayClaim),
    /// It is being carried out; its answer comes through this.
    InProgress(oneshot::Receiver<AnswerText>),
    Answered(AnswerText),
}

impl SeenRelays {
    pub fn look_up(self: &Arc<Self>, issuer: &Arc<str>, relay_id: &Arc<str>, now: i64) -> RelayLookup {
        let key = (issuer.clone(), relay_id.clone());
        let mut memory = self.0.lock();
        match memory.known.get_mut(&key) {
            Some(SeenRelay::Answered(answer)) => return RelayLookup::Answered(answer.clone()),
            Some(SeenRelay::InProgress(waiting)) => {
                let (sender, receiver) = oneshot::channel();
                waiting.push(sender);
                return RelayLookup::InProgress(receiver);
            }
            None => {}
        }
        memory.make_space(now);
        memory.known.insert(key.clone(), SeenRelay::InProgress(Vec::new()));
        RelayLookup::New(RelayClaim { relays: self.clone(), key: Some(key) })
    }
}

impl RelayMemory {
    fn make_space(&mut self, now: i64) {
        while let Some((until, _)) = self.order.front() {
            if *until > now && self.order.len() < RELAYS && self.bytes < RELAY_BYTES {
                return;
            }
            let Some((_, key)) = self.order.pop_front() else { return };
            if let Some(SeenRelay::Answered(answer)) = self.known.remove(&key) {
                self.bytes -= answer.len();
            }
        }
    }
}

/// The right to carry out a relay. Dropped without an answer, the relay counts as never received, and a duplicate carries
/// it out again.
pub struct RelayClaim {
    relays: Arc<SeenRelays>,
    key: Option<RelayKey>,
}

impl RelayClaim {
    /// The relay is answered, and so are its duplicates.
    pub fn answered(mut self, answer: &AnswerText, now: i64) {
        let Some(key) = self.key.take() else { return };
        let mut memory = self.relays.0.lock();
        memory.bytes += answer.len();
        memory.order.push_back((now + REMEMBERED_MS, key.clone()));
        let before = memory.known.insert(key, SeenRelay::Answered(answer.clone()));
        drop(memory);
        answer_duplicates(before, answer);
    }

    /// The relay failed and may be tried again: duplicates that wait get this answer, later ones carry it out again.
    pub fn failed(mut self, answer: &AnswerText) {
        let Some(key) = self.key.take() else { return };
        let before = self.relays.0.lock().known.remove(&key);
        answer_duplicates(before, answer);
    }
}

fn answer_duplicates(before: Option<SeenRelay>, answer: &AnswerText) {
    if let Some(SeenRelay::InProgress(waiting)) = before {
        for sender in waiting {
            let _ = sender.send(answer.clone());
        }
    }
}

impl Drop for RelayClaim {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.relays.0.lock().known.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_accepted_once_until_it_is_forgotten() {
        let nonces = HelloNonces::default();
        assert!(nonces.take("a.test", "n1", 0));
        assert!(!nonces.take("a.test", "n1", REMEMBERED_MS - 1));
        assert!(nonces.take("b.test", "n1", 1), "another domain has nonces of its own");
        assert!(nonces.take("a.test", "n1", REMEMBERED_MS));
    }

    #[test]
    fn with_too_many_nonces_every_hello_is_refused_and_none_is_forgotten() {
        let nonces = HelloNonces::default();
        for n in 0..NONCES {
            assert!(nonces.take(&format!("n{}.test", n / NONCES_PER_DOMAIN), &n.to_string(), 0));
        }
        assert!(!nonces.take("a.test", "one more", 1));
        assert!(!nonces.take("n0.test", "0", 1));
        assert!(nonces.take("a.test", "one more", REMEMBERED_MS));
        assert_eq!(nonces.0.lock().seen.len(), 1);
    }

    #[test]
    fn a_domain_with_too_many_nonces_is_refused_and_no_other() {
        let nonces = HelloNonces::default();
        for n in 0..NONCES_PER_DOMAIN {
            assert!(nonces.take("a.test", &n.to_string(), 0));
        }
        assert!(!nonces.take("a.test", "one more", 1));
        assert!(!nonces.take("a.test", "0", 1));
        assert!(nonces.take("b.test", "one more", 1));
        assert!(nonces.take("a.test", "one more", REMEMBERED_MS));
    }

    fn look_up(relays: &Arc<SeenRelays>, id: &str) -> RelayLookup {
        relays.look_up(&Arc::from("a.test"), &Arc::from(id), 0)
    }

    #[tokio::test]
    async fn a_duplicate_relay_is_carried_out_once() {
        let relays = Arc::new(SeenRelays::default());
        let RelayLookup::New(claim) = look_up(&relays, "r1") else { panic!("it is new") };
        let RelayLookup::InProgress(answer) = look_up(&relays, "r1") else { panic!("it is in progress") };
        claim.answered(&Arc::from("7"), 0);
        assert_eq!(&*answer.await.unwrap(), "7");
        assert!(matches!(look_up(&relays, "r1"), RelayLookup::Answered(answer) if &*answer == "7"));
        let other = relays.look_up(&Arc::from("b.test"), &Arc::from("r1"), 0);
        assert!(matches!(other, RelayLookup::New(_)), "another domain has ids of its own");
        assert!(matches!(
            relays.look_up(&Arc::from("a.test"), &Arc::from("r2"), REMEMBERED_MS),
            RelayLookup::New(_)
        ));
        assert!(matches!(
            relays.look_up(&Arc::from("a.test"), &Arc::from("r1"), REMEMBERED_MS),
            RelayLookup::New(_)
        ));
        assert_eq!(relays.0.lock().bytes, 0);
    }

    #[tokio::test]
    async fn a_relay_that_failed_or_was_dropped_is_carried_out_again() {
        let relays = Arc::new(SeenRelays::default());
        let RelayLookup::New(claim) = look_up(&relays, "r1") else { panic!("it is new") };
        let RelayLookup::InProgress(answer) = look_up(&relays, "r1") else { panic!("it is in progress") };
        claim.failed(&Arc::from("busy"));
        assert_eq!(&*answer.await.unwrap(), "busy");
        let RelayLookup::New(claim) = look_up(&relays, "r1") else { panic!("it may be tried again") };
        let RelayLookup::InProgress(answer) = look_up(&relays, "r1") else { panic!("it is in progress") };
        drop(claim);
        assert!(answer.await.is_err());
        assert!(matches!(look_up(&relays, "r1"), RelayLookup::New(_)));
    }
}
