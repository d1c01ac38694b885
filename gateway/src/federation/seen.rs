//! What was seen lately and must not count twice: hellos by their nonce, relays by their id.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

const REMEMBERED_MS: i64 = 600_000;
const NONCES: usize = 100_000;
/// More hellos than a domain that means well says in ten minutes.
const NONCES_EACH: usize = 5_000;
const RELAYS: usize = 200_000;
const RELAY_BYTES: usize = 64 << 20;

/// The nonces of other gateways. A full memory lets nobody in, because forgetting one would let it in twice; no domain may
/// fill it for the others.
#[derive(Default)]
pub struct Nonces(Mutex<Used>);

#[derive(Default)]
struct Used {
    seen: HashMap<Arc<str>, HashSet<Arc<str>>>,
    order: VecDeque<(i64, Arc<str>, Arc<str>)>,
}

impl Nonces {
    /// Whether this one is new; from now on it is not.
    pub fn take(&self, issuer: &str, nonce: &str, now: i64) -> bool {
        let mut used = self.0.lock();
        used.forget(now);
        let Used { seen, order } = &mut *used;
        let known = seen.get(issuer);
        if order.len() >= NONCES
            || known.is_some_and(|known| known.len() >= NONCES_EACH || known.contains(nonce))
        {
            return false;
        }
        let (issuer, nonce): (Arc<str>, Arc<str>) = (issuer.into(), nonce.into());
        seen.entry(issuer.clone()).or_default().insert(nonce.clone());
        order.push_back((now + REMEMBERED_MS, issuer, nonce));
        true
    }
}

impl Used {
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

/// Whose it is, and its id.
type Key = (Arc<str>, Arc<str>);
pub type Answer = Arc<str>;

/// The answers to relays of the last ten minutes, for gateways that ask again because they did not hear them.
#[derive(Default)]
pub struct Relays(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    known: HashMap<Key, State>,
    order: VecDeque<(i64, Key)>,
    bytes: usize,
}

enum State {
    /// Whoever asks meanwhile waits for the same answer.
    UnderWay(Vec<oneshot::Sender<Answer>>),
    Done(Answer),
}

/// What to do with a relay.
pub enum Turn {
    /// It is new: do it, and tell through this.
    New(Doing),
    /// The same one is being done.
    Wait(oneshot::Receiver<Answer>),
    Done(Answer),
}

impl Relays {
    pub fn begin(self: &Arc<Self>, issuer: &Arc<str>, relay_id: &Arc<str>, now: i64) -> Turn {
        let key = (issuer.clone(), relay_id.clone());
        let mut memory = self.0.lock();
        match memory.known.get_mut(&key) {
            Some(State::Done(answer)) => return Turn::Done(answer.clone()),
            Some(State::UnderWay(waiting)) => {
                let (sender, receiver) = oneshot::channel();
                waiting.push(sender);
                return Turn::Wait(receiver);
            }
            None => {}
        }
        memory.make_space(now);
        memory.known.insert(key.clone(), State::UnderWay(Vec::new()));
        Turn::New(Doing { relays: self.clone(), key: Some(key) })
    }
}

impl Memory {
    fn make_space(&mut self, now: i64) {
        while let Some((until, _)) = self.order.front() {
            if *until > now && self.order.len() < RELAYS && self.bytes < RELAY_BYTES {
                return;
            }
            let Some((_, key)) = self.order.pop_front() else { return };
            if let Some(State::Done(answer)) = self.known.remove(&key) {
                self.bytes -= answer.len();
            }
        }
    }
}

/// A relay that is being done. Dropped without an answer, it never was: who asks again has it done again.
pub struct Doing {
    relays: Arc<Relays>,
    key: Option<Key>,
}

impl Doing {
    /// It is done, and stays so.
    pub fn done(mut self, answer: &Answer, now: i64) {
        let Some(key) = self.key.take() else { return };
        let mut memory = self.relays.0.lock();
        memory.bytes += answer.len();
        memory.order.push_back((now + REMEMBERED_MS, key.clone()));
        let before = memory.known.insert(key, State::Done(answer.clone()));
        drop(memory);
        tell(before, answer);
    }

    /// It could not be done this time: those who wait are told, whoever comes later may try again.
    pub fn failed(mut self, answer: &Answer) {
        let Some(key) = self.key.take() else { return };
        let before = self.relays.0.lock().known.remove(&key);
        tell(before, answer);
    }
}

fn tell(before: Option<State>, answer: &Answer) {
    if let Some(State::UnderWay(waiting)) = before {
        for sender in waiting {
            let _ = sender.send(answer.clone());
        }
    }
}

impl Drop for Doing {
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
    fn a_nonce_counts_once_until_it_is_forgotten() {
        let nonces = Nonces::default();
        assert!(nonces.take("a.test", "n1", 0));
        assert!(!nonces.take("a.test", "n1", REMEMBERED_MS - 1));
        assert!(nonces.take("b.test", "n1", 1), "another domain has nonces of its own");
        assert!(nonces.take("a.test", "n1", REMEMBERED_MS));
    }

    #[test]
    fn a_full_memory_of_nonces_lets_nobody_in_and_forgets_nobody() {
        let nonces = Nonces::default();
        for n in 0..NONCES {
            assert!(nonces.take(&format!("n{}.test", n / NONCES_EACH), &n.to_string(), 0));
        }
        assert!(!nonces.take("a.test", "one more", 1));
        assert!(!nonces.take("n0.test", "0", 1));
        assert!(nonces.take("a.test", "one more", REMEMBERED_MS));
        assert_eq!(nonces.0.lock().seen.len(), 1);
    }

    #[test]
    fn a_domain_with_too_many_nonces_shuts_the_gateway_only_to_itself() {
        let nonces = Nonces::default();
        for n in 0..NONCES_EACH {
            assert!(nonces.take("a.test", &n.to_string(), 0));
        }
        assert!(!nonces.take("a.test", "one more", 1));
        assert!(!nonces.take("a.test", "0", 1));
        assert!(nonces.take("b.test", "one more", 1));
        assert!(nonces.take("a.test", "one more", REMEMBERED_MS));
    }

    fn begin(relays: &Arc<Relays>, id: &str) -> Turn {
        relays.begin(&Arc::from("a.test"), &Arc::from(id), 0)
    }

    #[tokio::test]
    async fn a_relay_that_is_asked_for_again_is_done_once() {
        let relays = Arc::new(Relays::default());
        let Turn::New(doing) = begin(&relays, "r1") else { panic!("it is new") };
        let Turn::Wait(answer) = begin(&relays, "r1") else { panic!("it is under way") };
        doing.done(&Arc::from("7"), 0);
        assert_eq!(&*answer.await.unwrap(), "7");
        assert!(matches!(begin(&relays, "r1"), Turn::Done(answer) if &*answer == "7"));
        let other = relays.begin(&Arc::from("b.test"), &Arc::from("r1"), 0);
        assert!(matches!(other, Turn::New(_)), "another domain has ids of its own");
        assert!(matches!(relays.begin(&Arc::from("a.test"), &Arc::from("r2"), REMEMBERED_MS), Turn::New(_)));
        assert!(matches!(relays.begin(&Arc::from("a.test"), &Arc::from("r1"), REMEMBERED_MS), Turn::New(_)));
        assert_eq!(relays.0.lock().bytes, 0);
    }

    #[tokio::test]
    async fn a_relay_that_failed_or_was_given_up_may_be_tried_again() {
        let relays = Arc::new(Relays::default());
        let Turn::New(doing) = begin(&relays, "r1") else { panic!("it is new") };
        let Turn::Wait(answer) = begin(&relays, "r1") else { panic!("it is under way") };
        doing.failed(&Arc::from("busy"));
        assert_eq!(&*answer.await.unwrap(), "busy");
        let Turn::New(doing) = begin(&relays, "r1") else { panic!("it may be tried again") };
        let Turn::Wait(answer) = begin(&relays, "r1") else { panic!("it is under way") };
        drop(doing);
        assert!(answer.await.is_err());
        assert!(matches!(begin(&relays, "r1"), Turn::New(_)));
    }
}
