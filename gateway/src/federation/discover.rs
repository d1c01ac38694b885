//! Where the gateway of another domain is: `https://{issuer}/.well-known/aun-gateway` says so, and is remembered.

use super::Federation;
use super::fetch::{self, Absent};
use hyper::Uri;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt;
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
/// Of a longer list only so many are tried.
const GATEWAYS: usize = 4;
/// Gateways without a priority come last.
const NO_PRIORITY: i64 = 999;

/// A gateway's place: always over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wss://{}:{}{}", self.host, self.port, self.path)
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    gateways: Vec<Gateway>,
    /// The older shape, with one gateway.
    gateway: Option<String>,
    issuer: Option<String>,
    federation: Option<ForGateways>,
}

#[derive(Deserialize)]
struct Gateway {
    url: String,
    priority: Option<i64>,
}

#[derive(Deserialize)]
struct ForGateways {
    url: Option<String>,
}

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
        let found = document.and_then(|text| read(&text, issuer).map_err(Absent::Answer));
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
        if known.fresh_until.is_some_and(|until| now < until) {
            return Some(Ok(known.places.clone()));
        }
        let failed = known.failed.as_ref().filter(|failed| now < failed.until)?;
        match known.places.is_empty() {
            true => Some(Err(failed.sentence.clone())),
            false => Some(Ok(known.places.clone())),
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
            make_room(&mut all, now);
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

fn make_room(all: &mut HashMap<String, Known>, now: Instant) {
    let lives = |known: &Known| {
        let failed = known.failed.as_ref().is_some_and(|failed| now < failed.until);
        failed || known.fresh_until.is_some_and(|until| now < until)
    };
    all.retain(|_, known| lives(known));
    while all.len() >= DOMAINS {
        let Some(any) = all.keys().next().cloned() else { return };
        all.remove(&any);
    }
}

/// The places in a document, the federation's own first and then by priority. One that points elsewhere spoils it all:
/// whoever wrote it there does not speak for the domain.
fn read(text: &[u8], issuer: &str) -> Result<Vec<Place>, String> {
    let document: Document = serde_json::from_slice(text)
        .map_err(|error| format!("the well-known of {issuer} is not understood: {error}"))?;
    if let Some(other) = document.issuer.filter(|named| !named.eq_ignore_ascii_case(issuer)) {
        let other: String = other.chars().take(80).collect();
        return Err(format!("the well-known of {issuer} is that of {other:?}"));
    }
    let mut gateways = document.gateways;
    gateways.sort_by_key(|gateway| gateway.priority.unwrap_or(NO_PRIORITY));
    let listed = gateways.into_iter().map(|gateway| gateway.url);
    let urls = document.federation.and_then(|own| own.url).into_iter().chain(listed).chain(document.gateway);
    let mut places: Vec<Place> = Vec::new();
    for url in urls {
        let place = place(&url, issuer)?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() {
        return Err(format!("the well-known of {issuer} names no gateway"));
    }
    places.truncate(GATEWAYS);
    Ok(places)
}

fn place(url: &str, issuer: &str) -> Result<Place, String> {
    let shown: String = url.chars().take(200).collect();
    let wrong = |why: &str| format!("the well-known of {issuer} names {shown:?}, {why}");
    let uri: Uri = url.parse().map_err(|_| wrong("which is no URL"))?;
    if uri.scheme_str() != Some("wss") {
        return Err(wrong("which is not wss"));
    }
    let authority = uri.authority().ok_or_else(|| wrong("which has no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("which has a user in it"));
    }
    let host = authority.host().to_ascii_lowercase();
    let inside = host == issuer || host.strip_suffix(issuer).is_some_and(|label| label.ends_with('.'));
    if !inside {
        return Err(wrong("which is outside the domain"));
    }
    let port = match authority.port() {
        None => 443,
        Some(port) if port.as_u16() != 0 => port.as_u16(),
        Some(_) => return Err(wrong("which has no port")),
    };
    Ok(Place { host, port, path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(document: &str) -> Result<Vec<String>, String> {
        let places = read(document.as_bytes(), "other.example")?;
        Ok(places.iter().map(Place::to_string).collect())
    }

    #[test]
    fn the_order_is_the_federations_own_url_and_then_priority() {
        let document = r#"{"gateways":[{"url":"wss://b.other.example/aun"},
            {"url":"wss://a.other.example:20001/aun","priority":2},{"url":"wss://other.example","priority":1}],
            "federation":{"versions":["1.0"],"url":"wss://gateway.other.example:7/fed"}}"#;
        let order = [
            "wss://gateway.other.example:7/fed",
            "wss://other.example:443/",
            "wss://a.other.example:20001/aun",
            "wss://b.other.example:443/aun",
        ];
        assert_eq!(places(document).unwrap(), order);
    }

    #[test]
    fn the_older_shape_is_read_and_both_together_are_one_gateway() {
        let older =
            r#"{"gateway":"wss://gateway.other.example:20001/aun","issuer":"other.example","version":"1.0"}"#;
        assert_eq!(places(older).unwrap(), ["wss://gateway.other.example:20001/aun"]);
        let both = r#"{"gateways":[{"url":"wss://gateway.other.example:1/aun","priority":1}],
            "gateway":"wss://gateway.other.example:1/aun","issuer":"other.example"}"#;
        assert_eq!(places(both).unwrap().len(), 1);
    }

    #[test]
    fn a_document_that_points_elsewhere_or_nowhere_is_refused() {
        for (document, why) in [
            (r#"{"gateways":[]}"#, "names no gateway"),
            ("{}", "names no gateway"),
            ("[1", "not understood"),
            (r#"{"gateways":[{"url":"wss://gateway.evil.example/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"wss://evilother.example/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"wss://other.example.evil.example/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"wss://127.0.0.1:20001/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"ws://gateway.other.example/aun"}]}"#, "not wss"),
            (r#"{"gateways":[{"url":"https://gateway.other.example/aun"}]}"#, "not wss"),
            (r#"{"gateways":[{"url":"wss://gateway.other.example@evil.example/aun"}]}"#, "a user in it"),
            (r#"{"gateways":[{"url":"not a url"}]}"#, "no URL"),
            (r#"{"gateways":[{"url":"wss://gateway.other.example:0/aun"}]}"#, "no port"),
            (
                r#"{"gateways":[{"url":"wss://gateway.other.example/aun"}],"issuer":"third.example"}"#,
                "that of",
            ),
        ] {
            let error = places(document).unwrap_err();
            assert!(error.contains(why), "{document}: {error}");
        }
    }

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
