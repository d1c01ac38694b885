//! The document `/.well-known/aun-gateway` of another domain: the gateways it names, which must be inside the domain.

use crate::federation::errors::quoted;
use hyper::Uri;
use serde::Deserialize;
use std::fmt;

/// Of a longer list only so many are dialled.
const GATEWAYS: usize = 4;
/// Gateways without a priority come last.
const NO_PRIORITY: i64 = 999;

/// Where a gateway is: always over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerGatewayUrl {
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl fmt::Display for PeerGatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wss://{}:{}{}", self.host, self.port, self.path)
    }
}

#[derive(Deserialize)]
struct WellKnownDocument {
    #[serde(default)]
    gateways: Vec<ListedGateway>,
    /// The older form, with one gateway.
    gateway: Option<String>,
    issuer: Option<String>,
    federation: Option<FederationMember>,
}

#[derive(Deserialize)]
struct ListedGateway {
    url: String,
    priority: Option<i64>,
}

#[derive(Deserialize)]
struct FederationMember {
    url: Option<String>,
}

/// The gateways in a document: first the one for federation, then the others by priority. If one of them is outside the
/// domain, the whole document is refused, because whoever wrote it does not speak for the domain.
pub fn read(text: &[u8], issuer: &str) -> Result<Vec<PeerGatewayUrl>, String> {
    let document: WellKnownDocument = serde_json::from_slice(text)
        .map_err(|error| format!("the well-known document of {issuer} is malformed: {error}"))?;
    if let Some(other) = document.issuer.filter(|named| !named.eq_ignore_ascii_case(issuer)) {
        return Err(format!("the well-known document of {issuer} is that of {:?}", quoted(&other)));
    }
    let mut gateways = document.gateways;
    gateways.sort_by_key(|gateway| gateway.priority.unwrap_or(NO_PRIORITY));
    let listed = gateways.into_iter().map(|gateway| gateway.url);
    let named = document.federation.and_then(|own| own.url).into_iter().chain(listed).chain(document.gateway);
    let mut urls: Vec<PeerGatewayUrl> = Vec::new();
    for text in named {
        let url = parse(&text, issuer)?;
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    if urls.is_empty() {
        return Err(format!("the well-known document of {issuer} names no gateway"));
    }
    urls.truncate(GATEWAYS);
    Ok(urls)
}

fn parse(url: &str, issuer: &str) -> Result<PeerGatewayUrl, String> {
    let shown: String = url.chars().take(200).collect();
    let wrong = |why: &str| format!("the well-known document of {issuer} names {shown:?}, {why}");
    let uri: Uri = url.parse().map_err(|_| wrong("which is not a URL"))?;
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
    Ok(PeerGatewayUrl { host, port, path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(document: &str) -> Result<Vec<String>, String> {
        let urls = read(document.as_bytes(), "other.example")?;
        Ok(urls.iter().map(PeerGatewayUrl::to_string).collect())
    }

    #[test]
    fn the_federation_url_comes_first_and_then_the_priority() {
        let document = r#"{"gateways":[{"url":"wss://b.other.example/aun"},
            {"url":"wss://a.other.example:20001/aun","priority":2},{"url":"wss://other.example","priority":1}],
            "federation":{"versions":["1.0"],"url":"wss://gateway.other.example:7/fed"}}"#;
        let order = [
            "wss://gateway.other.example:7/fed",
            "wss://other.example:443/",
            "wss://a.other.example:20001/aun",
            "wss://b.other.example:443/aun",
        ];
        assert_eq!(urls(document).unwrap(), order);
    }

    #[test]
    fn the_older_form_is_read_and_both_forms_together_name_one_gateway() {
        let older =
            r#"{"gateway":"wss://gateway.other.example:20001/aun","issuer":"other.example","version":"1.0"}"#;
        assert_eq!(urls(older).unwrap(), ["wss://gateway.other.example:20001/aun"]);
        let both = r#"{"gateways":[{"url":"wss://gateway.other.example:1/aun","priority":1}],
            "gateway":"wss://gateway.other.example:1/aun","issuer":"other.example"}"#;
        assert_eq!(urls(both).unwrap().len(), 1);
    }

    #[test]
    fn a_document_with_a_gateway_outside_the_domain_or_with_none_is_refused() {
        for (document, why) in [
            (r#"{"gateways":[]}"#, "names no gateway"),
            ("{}", "names no gateway"),
            ("[1", "malformed"),
            (r#"{"gateways":[{"url":"wss://gateway.evil.example/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"wss://evilother.example/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"wss://other.example.evil.example/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"wss://127.0.0.1:20001/aun"}]}"#, "outside the domain"),
            (r#"{"gateways":[{"url":"ws://gateway.other.example/aun"}]}"#, "not wss"),
            (r#"{"gateways":[{"url":"https://gateway.other.example/aun"}]}"#, "not wss"),
            (r#"{"gateways":[{"url":"wss://gateway.other.example@evil.example/aun"}]}"#, "a user in it"),
            (r#"{"gateways":[{"url":"not a url"}]}"#, "not a URL"),
            (r#"{"gateways":[{"url":"wss://gateway.other.example:0/aun"}]}"#, "no port"),
            (
                r#"{"gateways":[{"url":"wss://gateway.other.example/aun"}],"issuer":"third.example"}"#,
                "that of",
            ),
        ] {
            let error = urls(document).unwrap_err();
            assert!(error.contains(why), "{document}: {error}");
        }
    }
}
