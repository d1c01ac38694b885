//! Where the gateway of another domain is: the domain itself is asked, and its answer remembered.

use super::Federation;
use super::fetch::{self, Absent};
use super::well_known::{self, Place};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

const PATH: &str = "/.well-known/aun-gateway";
const DOCUMENT_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(5);
/// Where an older answer is at hand, it is not worth the whole time a link may take.
const PATIENCE_WITH_STALE: Duration = Duration::from_secs(2);
const FRESH: Duration = Duration::from_secs(3600);
/// A document that is wrong stays wrong for a while; a server that is away may be back in a moment.
const BAD_DOCUMENT: Duration = Duration::from_secs(60);
const AWAY: Duration = Duration::from_secs(2);
const DOMAINS: usize = 10_000;

/// What is remembered of a domain.
#[derive(Default)]
struct Known {
    /// The last good answer; it stays after its time, for when nobody can be asked.
    places: Vec<Place>,
    fresh_until: Option<Instant>,
    failed: Option<Failed>,
}

struct Failed {
    until: Instant,
    sentence: String,
}

impl Known {
    fn is_fresh(&self, now: Instant) -> bool {
        self.fresh_until.is_some_and(|until| now < until)
    }

    /// Why it is not asked again yet.
    fn failure(&self, now: Instant) -> Option<&str> {
        self.failed.as_ref().filter(|failed| now < failed.until).map(|failed| failed.sentence.as_str())
    }
}

#[derive(Default)]
pub struct Discovery(Mutex<HashMap<String, Known>>);

impl Discovery {
    /// The gateways of a domain, in the order they should be tried.
    pub async fn find(&self, fed: &Federation, issuer: &str) -> Result<Vec<Place>, String> {
        if let Some(remembered) = self.remembered(issuer, Instant::now()) {
            return remembered;
        }
        self.look(fed, issuer).await
    }

    /// Asks the domain itself, whatever is remembered.
    pub async fn look(&self, fed: &Federation, issuer: &str) -> Result<Vec<Place>, String> {
        let stale = self.0.lock().get(issuer).is_some_and(|known| !known.places.is_empty());
        let within = if stale { PATIENCE_WITH_STALE } else { PATIENCE };
        let document = fetch::get(fed, issuer, (issuer, 443), PATH, DOCUMENT_BYTES, within).await;
        let found = document.and_then(|text| well_known::read(&text, issuer).map_err(Absent::Answer));
        self.remember(issuer, found, Instant::now())
    }

    /// The place was of no use: the next dial asks again, and keeps it only for when nobody answers.
    pub fn doubt(&self, issuer: &str) {
        if let Some(known) = self.0.lock().get_mut(issuer) {
            known.fresh_until = None;
        }
    }

    /// The domain is known to be there: what failed may be tried at once.
    pub fn forgive(&self, issuer: &str) {
        if let Some(known) = self.0.lock().get_mut(issuer) {
            known.failed = None;
        }
    }

    /// What needs no asking; nothing if the domain has to be asked.
    fn remembered(&self, issuer: &str, now: Instant) -> Option<Result<Vec<Place>, String>> {
        let known = self.0.lock();
        let known = known.get(issuer)?;
        match known.failure(now) {
            None if !known.is_fresh(now) => None,
            Some(sentence) if known.places.is_empty() => Some(Err(sentence.to_owned())),
            _ => Some(Ok(known.places.clone())),
        }
    }

    fn remember(
        &self,
        issuer: &str,
        found: Result<Vec<Place>, Absent>,
        now: Instant,
    ) -> Result<Vec<Place>, String> {
        let mut all = self.0.lock();
        if all.len() >= DOMAINS && !all.contains_key(issuer) {
            make_space(&mut all, now);
        }
        let known = all.entry(issuer.to_owned()).or_default();
        match found {
            Ok(places) => {
                *known = Known { places, fresh_until: Some(now + FRESH), failed: None };
                Ok(known.places.clone())
            }
            Err(Absent::Answer(sentence)) => {
                let failed = Failed { until: now + BAD_DOCUMENT, sentence: sentence.clone() };
                *known = Known { places: Vec::new(), fresh_until: None, failed: Some(failed) };
                Err(sentence)
            }
            Err(Absent::Network(sentence)) => {
                known.fresh_until = None;
                known.failed = Some(Failed { until: now + AWAY, sentence: sentence.clone() });
                if known.places.is_empty() { Err(sentence) } else { Ok(known.places.clone()) }
            }
        }
    }
}

fn make_space(all: &mut HashMap<String, Known>, now: Instant) {
    all.retain(|_, known| known.is_fresh(now) || known.failure(now).is_some());
    while all.len() >= DOMAINS {
        let Some(any) = all.keys().next().cloned() else { return };
        all.remove(&any);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_answer_outlives_a_network_that_is_down_and_not_a_bad_document() {
        let (discovery, start) = (Discovery::default(), Instant::now());
        let good = || vec![Place { host: "gateway.x.example".to_owned(), port: 1, path: "/".to_owned() }];
        let (network, answer) =
            (|| Err(Absent::Network("away".to_owned())), || Err(Absent::Answer("bad".to_owned())));
        let after = |seconds| start + Duration::from_secs(seconds);

        assert!(discovery.remembered("x.example", start).is_none(), "nobody was asked");
        assert_eq!(discovery.remember("x.example", network(), start), Err("away".to_owned()));
        assert_eq!(discovery.remembered("x.example", after(1)), Some(Err("away".to_owned())));
        assert!(discovery.remembered("x.example", after(2)).is_none(), "it may be back");

        assert_eq!(discovery.remember("x.example", Ok(good()), start), Ok(good()));
        assert_eq!(discovery.remembered("x.example", after(3599)), Some(Ok(good())));
        assert!(discovery.remembered("x.example", after(3600)).is_none(), "its time is over");
        assert_eq!(discovery.remember("x.example", network(), after(3600)), Ok(good()), "the last good one");
        assert_eq!(discovery.remembered("x.example", after(3601)), Some(Ok(good())));

        assert_eq!(discovery.remember("x.example", answer(), start), Err("bad".to_owned()));
        assert_eq!(discovery.remembered("x.example", after(59)), Some(Err("bad".to_owned())));
        discovery.forgive("x.example");
        assert!(discovery.remembered("x.example", after(1)).is_none(), "it said that it is there");
    }

    #[test]
    fn a_doubted_place_is_asked_for_again() {
        let (discovery, start) = (Discovery::default(), Instant::now());
        let place = Place { host: "gateway.x.example".to_owned(), port: 1, path: "/".to_owned() };
        discovery.remember("x.example", Ok(vec![place]), start).unwrap();
        discovery.doubt("x.example");
        assert!(discovery.remembered("x.example", start).is_none());
    }

    #[test]
    fn strangers_names_do_not_fill_the_memory() {
        let (discovery, start) = (Discovery::default(), Instant::now());
        for n in 0..DOMAINS + 5 {
            let _ = discovery.remember(&format!("x{n}.example"), Err(Absent::Network(String::new())), start);
        }
        assert!(discovery.0.lock().len() <= DOMAINS);
    }
}
