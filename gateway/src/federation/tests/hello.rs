//! `federation.hello` between two gateways, without a socket.

use crate::config;
use crate::federation::trust::{GatewayIdentity, PeerGateway, PeerRoot, PeerTrust};
use crate::federation::wire::hello::{HelloParams, LinkLimits, Welcome};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Curve, Identity, Key, RootDomains, Urls, dev::Pki};
use kernel::{RpcError, codes};
use serde_json::Value;
use std::sync::Arc;

const NOW: i64 = 1_800_000_000;
const NOW_MS: i64 = NOW * 1000;
const NONCE: &str = "the nonce of the challenge";

fn urls() -> Urls {
    Urls { ca_issuers: "http://a/ca".into(), ocsp: "http://a/ocsp".into(), crl: "http://a/crl".into() }
}

/// The identity of a gateway with this name, signed by one authority, with the chain of the same or another one.
fn identity(name: &str, signer: &Pki, shown: &Pki, until: i64) -> GatewayIdentity {
    let key = Key::generate(Curve::P256);
    let leaf = signer.issuer.issue_service(name, &key.public(), &[], &[], &urls(), NOW - 60, until).unwrap();
    let chain = [&shown.issuer, &shown.registry].map(|ca| ca.certificate().pem().to_owned());
    GatewayIdentity { leaf: Identity::new(leaf, key).unwrap(), chain: chain.to_vec() }
}

fn good(domain: &str, pki: &Pki) -> GatewayIdentity {
    identity(&format!("gateway.{domain}"), pki, pki, NOW + 1000)
}

fn trust(roots: &[&Pki], block: &[&str]) -> PeerTrust {
    let config = config::FederationConfig {
        block: block.iter().map(|name| (*name).to_owned()).collect(),
        ..config::FederationConfig::default()
    };
    let trust = PeerTrust::new(Arc::default(), &config);
    trust.set(roots.iter().map(|pki| root(pki, RootDomains::any())).collect());
    trust
}

fn root(pki: &Pki, domains: RootDomains) -> PeerRoot {
    PeerRoot { certificate: pki.root.certificate().clone(), domains }
}

fn hello(identity: &GatewayIdentity) -> HelloParams {
    HelloParams::new(identity, "a.test", "b.test", NONCE, "c".repeat(43), NOW_MS)
}

fn refusal(outcome: Result<PeerGateway, RpcError>) -> (i32, String) {
    let error = outcome.map(|peer| peer.issuer).unwrap_err();
    let reason = error.data("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    (error.code(), reason)
}

#[test]
fn two_gateways_accept_each_other() {
    let (a, b) = (Pki::new("a.test", NOW), Pki::new("b.test", NOW));
    let (ours, theirs) = (good("a.test", &a), good("b.test", &b));
    let hello = hello(&ours);
    let peer = hello.check(&trust(&[&a, &b], &[]), "b.test", NONCE, NOW_MS).unwrap();
    assert_eq!((peer.issuer.as_str(), peer.gateway_aid.as_str()), ("a.test", "gateway.a.test"));
    let welcome =
        Welcome::new(&theirs, &hello, &peer, "fed_1".to_owned(), &[], LinkLimits::default(), NOW_MS + 5);
    let peer = welcome.check(&trust(&[&a, &b], &[]), &ours, &hello, NOW_MS + 9).unwrap();
    assert_eq!(peer.issuer, "b.test");
}

#[test]
fn a_certificate_that_is_not_of_the_gateway_of_the_domain_is_refused() {
    let (a, b, evil) = (Pki::new("a.test", NOW), Pki::new("b.test", NOW), Pki::new("evil.test", NOW));
    let namesake = Pki::new("a.test", NOW);
    let all = trust(&[&a, &b, &evil], &[]);
    let certificate = (codes::CERT_OR_NONCE_INVALID.code, "certificate".to_owned());
    for (what, identity) in [
        ("another service of the domain", identity("auth.a.test", &a, &a, NOW + 1000)),
        ("the gateway of another domain", good("b.test", &b)),
        (
            "the right name from another domain's authority",
            identity("gateway.a.test", &evil, &evil, NOW + 1000),
        ),
        ("the same, with the right chain", identity("gateway.a.test", &evil, &a, NOW + 1000)),
        ("an untrusted authority of the same name", good("a.test", &namesake)),
        ("one that has expired", identity("gateway.a.test", &a, &a, NOW - 1)),
        ("an agent", identity("gateway-x.a.test", &a, &a, NOW + 1000)),
    ] {
        assert_eq!(refusal(hello(&identity).check(&all, "b.test", NONCE, NOW_MS)), certificate, "{what}");
    }
    let ours = hello(&good("a.test", &a));
    assert_eq!(refusal(ours.check(&trust(&[&b], &[]), "b.test", NONCE, NOW_MS)), certificate);
    let blocked = ours.check(&trust(&[&a], &["a.test"]), "b.test", NONCE, NOW_MS);
    assert_eq!(refusal(blocked), (codes::UNAUTHENTICATED.code, "issuer_blocked".to_owned()));
}

#[test]
fn a_root_speaks_for_the_domains_it_is_trusted_for() {
    let south = Pki::new("a.test", NOW);
    let hello = hello(&good("a.test", &south));
    let trust = trust(&[], &[]);
    let certificate = (codes::CERT_OR_NONCE_INVALID.code, "certificate".to_owned());
    for (patterns, accepted) in [
        (&["a.test"][..], true),
        (&["b.test", "*.test"][..], true),
        (&["b.test"][..], false),
        (&["*.a.test"][..], false),
        (&["*"][..], true),
    ] {
        trust.set(vec![root(&south, RootDomains::parse(patterns).unwrap())]);
        let checked = hello.check(&trust, "b.test", NONCE, NOW_MS);
        assert_eq!(checked.is_ok(), accepted, "{patterns:?}");
        if !accepted {
            assert_eq!(refusal(checked), certificate, "{patterns:?}");
        }
    }
    // Of two roots of one name the one that signed counts, and it is trusted for something else.
    let other = Pki::new("a.test", NOW);
    let elsewhere = RootDomains::parse(&["b.test"]).unwrap();
    trust.set(vec![root(&south, elsewhere), root(&other, RootDomains::parse(&["a.test"]).unwrap())]);
    assert_eq!(refusal(hello.check(&trust, "b.test", NONCE, NOW_MS)), certificate);
}

#[test]
fn a_blocked_key_is_refused_under_every_name() {
    let a = Pki::new("a.test", NOW);
    let hello = hello(&good("a.test", &a));
    let of = |certificate: &certs::Certificate| {
        [certificate.fingerprint().to_owned(), certificate.public_key().fingerprint()]
    };
    let blocked = [&a.root, &a.registry, &a.issuer].map(|authority| of(authority.certificate())).concat();
    for key in blocked {
        let refused = hello.check(&trust(&[&a], &[&key]), "b.test", NONCE, NOW_MS);
        assert_eq!(refusal(refused), (codes::UNAUTHENTICATED.code, "issuer_blocked".to_owned()), "{key}");
    }
    let other = Pki::new("a.test", NOW).root.certificate().fingerprint().to_owned();
    assert!(hello.check(&trust(&[&a], &[&other]), "b.test", NONCE, NOW_MS).is_ok());
}

type HelloEdit = Box<dyn Fn(&mut HelloParams)>;

#[test]
fn every_member_of_a_hello_is_checked_or_signed() {
    let a = Pki::new("a.test", NOW);
    let (trust, identity) = (trust(&[&a], &[]), good("a.test", &a));
    let (unauthenticated, bad, forged) =
        (codes::UNAUTHENTICATED.code, codes::CERT_OR_NONCE_INVALID.code, codes::SIGNATURE_INVALID.code);
    let other = STANDARD.encode(identity.leaf.sign(b"something else"));
    let changes: [(&str, i32, HelloEdit); 10] = [
        ("version", codes::VERSION_MISMATCH.code, Box::new(|h| h.version = "2.0".into())),
        ("to", unauthenticated, Box::new(|h| h.to_issuer = "c.test".into())),
        ("ourselves", unauthenticated, Box::new(|h| h.from_issuer = "b.test".into())),
        ("server nonce", bad, Box::new(|h| h.server_nonce = "another".into())),
        ("empty nonce", bad, Box::new(|h| h.client_nonce = String::new())),
        ("another nonce", forged, Box::new(|h| h.client_nonce = "d".repeat(43))),
        ("old", bad, Box::new(|h| h.timestamp -= 300_001)),
        ("a second later", forged, Box::new(|h| h.timestamp += 1)),
        ("no signature", forged, Box::new(|h| h.signature = String::new())),
        ("another signature", forged, Box::new(move |h| h.signature = other.clone())),
    ];
    for (what, code, change) in changes {
        let mut hello = hello(&identity);
        change(&mut hello);
        assert_eq!(refusal(hello.check(&trust, "b.test", NONCE, NOW_MS)).0, code, "{what}");
    }
}

#[test]
fn a_welcome_is_valid_for_one_hello_only() {
    let (a, b) = (Pki::new("a.test", NOW), Pki::new("b.test", NOW));
    let (ours, theirs, trust) = (good("a.test", &a), good("b.test", &b), trust(&[&a, &b], &[]));
    let hello = hello(&ours);
    let peer = hello.check(&trust, "b.test", NONCE, NOW_MS).unwrap();
    let welcome =
        |hello| Welcome::new(&theirs, hello, &peer, "fed_1".to_owned(), &[], LinkLimits::default(), NOW_MS);
    let mut other = hello.clone();
    other.server_nonce = "of another socket".to_owned();
    let spliced = refusal(welcome(&other).check(&trust, &ours, &hello, NOW_MS));
    assert_eq!(spliced.0, codes::SIGNATURE_INVALID.code);
    let mut renamed = welcome(&hello);
    renamed.session_id = "fed_2".to_owned();
    assert_eq!(refusal(renamed.check(&trust, &ours, &hello, NOW_MS)).0, codes::SIGNATURE_INVALID.code);
    // Our own certificate sent back to us is not theirs.
    let mut reflected = welcome(&hello);
    (reflected.cert, reflected.chain) = (hello.cert.clone(), hello.chain.clone());
    let reflected = refusal(reflected.check(&trust, &ours, &hello, NOW_MS));
    assert_eq!(reflected.0, codes::CERT_OR_NONCE_INVALID.code);
}
