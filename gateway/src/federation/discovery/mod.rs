//! What another domain says of itself over HTTPS: where its gateways are, and whether their certificates are revoked.
//!
//! The gateways are in its well-known document, which is remembered.

pub mod fetch;
mod revocation;
mod well_known;

pub use revocation::{RevocationCheck, RevocationRefusal};
pub use well_known::PeerGatewayUrl;

use crate::federation::Federation;
use fetch::FetchError;
use kernel::Cache;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

const PATH: &str = "/.well-known/aun-gateway";
const DOCUMENT_BYTES: usize = 64 << 10;
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// With an older document at hand, a new one may not take all the time of a dial.
const FETCH_TIMEOUT_WITH_STALE: Duration = Duration::from_secs(2);
const FRESH: Duration = Duration::from_secs(3600);
/// How long a failure is remembered: an unusable document stays so for a while, an unreachable server may be back soon.
const UNUSABLE: Duration = Duration::from_secs(60);
const UNREACHABLE: Duration = Duration::from_secs(2);
const DOMAINS: usize = 10_000;

/// What is remembered of a domain.
#[derive(Default)]
struct KnownDomain {
    /// From the last usable document. They are kept after it is stale, for when the domain cannot be reached.
    urls: Vec<PeerGatewayUrl>,
    fresh_until: Option<Instant>,
    failed: Option<FailedDiscovery>,
}

struct FailedDiscovery {
    until: Instant,
    sentence: String,
}

impl KnownDomain {
    fn is_fresh(&self, now: Instant) -> bool {
        self.fresh_until.is_some_and(|until| now < until)
    }

    /// The last failure, while the domain is not asked again yet.
    fn failure(&self, now: Instant) -> Option<&str> {
        self.failed.as_ref().filter(|failed| now < failed.until).map(|failed| failed.sentence.as_str())
    }
}

pub struct Discovery(Mutex<Cache<String, KnownDomain>>);

impl Default for Discovery {
    fn default() -> Discovery {
        Discovery(Mutex::new(Cache::new(DOMAINS)))
    }
}

impl Discovery {
    /// The gateways of a domain, in the order they should be tried.
    pub async fn find(&self, fed: &Federation, issuer: &str) -> Result<Vec<PeerGatewayUrl>, String> {
        if let Some(remembered) = self.remembered(issuer, Instant::now()) {
            return remembered;
        }
        self.refresh(fed, issuer).await
    }

    /// Fetches the document of the domain, whatever is remembered.
    pub async fn refresh(&self, fed: &Federation, issuer: &str) -> Result<Vec<PeerGatewayUrl>, String> {
        let stale = self.0.lock().peek(issuer).is_some_and(|known| !known.urls.is_empty());
        let within = if stale { FETCH_TIMEOUT_WITH_STALE } else { FETCH_TIMEOUT };
        let document = fetch::get(fed, issuer, (issuer, 443), PATH, DOCUMENT_BYTES, within).await;
        let found = document.and_then(|text| well_known::read(&text, issuer).map_err(FetchError::Unusable));
        self.remember(issuer, found, Instant::now())
    }

    /// None of the gateways could be dialled: the next dial fetches the document again.
    pub fn expire(&self, issuer: &str) {
        if let Some(known) = self.0.lock().get_mut(issuer) {
            known.fresh_until = None;
        }
    }

    /// The domain is known to be reachable: what failed may be tried at once.
    pub fn forget_failure(&self, issuer: &str) {
        if let Some(known) = self.0.lock().get_mut(issuer) {
            known.failed = None;
        }
    }

    /// What is remembered; `None` if the document has to be fetched.
    fn remembered(&self, issuer: &str, now: Instant) -> Option<Result<Vec<PeerGatewayUrl>, String>> {
        let mut known = self.0.lock();
        let known = known.get(issuer)?;
        match known.failure(now) {
            None if !known.is_fresh(now) => None,
            Some(sentence) if known.urls.is_empty() => Some(Err(sentence.to_owned())),
            _ => Some(Ok(known.urls.clone())),
        }
    }

    fn remember(
        &self,
        issuer: &str,
        found: Result<Vec<PeerGatewayUrl>, FetchError>,
        now: Instant,
    ) -> Result<Vec<PeerGatewayUrl>, String> {
        let mut all = self.0.lock();
        let known = all.get_or_insert_with(issuer.to_owned(), KnownDomain::default);
        match found {
            Ok(urls) => {
                *known = KnownDomain { urls, fresh_until: Some(now + FRESH), failed: None };
                Ok(known.urls.clone())
            }
            Err(FetchError::Unusable(sentence)) => {
                let failed = FailedDiscovery { until: now + UNUSABLE, sentence: sentence.clone() };
                *known = KnownDomain { urls: Vec::new(), fresh_until: None, failed: Some(failed) };
                Err(sentence)
            }
            Err(FetchError::Network(sentence)) => {
                known.fresh_until = None;
                known.failed = Some(FailedDiscovery { until: now + UNREACHABLE, sentence: sentence.clone() });
                if known.urls.is_empty() { Err(sentence) } else { Ok(known.urls.clone()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_gateways_are_kept_while_the_domain_is_unreachable_but_not_after_an_unusable_document() {
        let (discovery, start) = (Discovery::default(), Instant::now());
        let good =
            || vec![PeerGatewayUrl { host: "gateway.x.example".to_owned(), port: 1, path: "/".to_owned() }];
        let (unreachable, unusable) = (
            || Err(FetchError::Network("unreachable".to_owned())),
            || Err(FetchError::Unusable("unusable".to_owned())),
        );
        let after = |seconds| start + Duration::from_secs(seconds);

        assert!(discovery.remembered("x.example", start).is_none(), "nothing was fetched");
        assert_eq!(discovery.remember("x.example", unreachable(), start), Err("unreachable".to_owned()));
        assert_eq!(discovery.remembered("x.example", after(1)), Some(Err("unreachable".to_owned())));
        assert!(discovery.remembered("x.example", after(2)).is_none(), "it may be reachable again");

        assert_eq!(discovery.remember("x.example", Ok(good()), start), Ok(good()));
        assert_eq!(discovery.remembered("x.example", after(3599)), Some(Ok(good())));
        assert!(discovery.remembered("x.example", after(3600)).is_none(), "it is stale");
        assert_eq!(
            discovery.remember("x.example", unreachable(), after(3600)),
            Ok(good()),
            "the last usable one"
        );
        assert_eq!(discovery.remembered("x.example", after(3601)), Some(Ok(good())));

        assert_eq!(discovery.remember("x.example", unusable(), start), Err("unusable".to_owned()));
        assert_eq!(discovery.remembered("x.example", after(59)), Some(Err("unusable".to_owned())));
        discovery.forget_failure("x.example");
        assert!(discovery.remembered("x.example", after(1)).is_none(), "it is known to be reachable");
    }

    #[test]
    fn an_expired_document_is_fetched_again() {
        let (discovery, start) = (Discovery::default(), Instant::now());
        let url = PeerGatewayUrl { host: "gateway.x.example".to_owned(), port: 1, path: "/".to_owned() };
        discovery.remember("x.example", Ok(vec![url]), start).unwrap();
        discovery.expire("x.example");
        assert!(discovery.remembered("x.example", start).is_none());
    }

    #[test]
    fn the_number_of_remembered_domains_is_bounded() {
        let (discovery, start) = (Discovery::default(), Instant::now());
        for n in 0..DOMAINS + 5 {
            let _ =
                discovery.remember(&format!("x{n}.example"), Err(FetchError::Network(String::new())), start);
        }
        assert_eq!(discovery.0.lock().len(), DOMAINS);
        assert!(discovery.remembered("x4.example", start).is_none(), "the oldest were forgotten");
        assert!(discovery.remembered("x5.example", start).is_some());
    }
}
