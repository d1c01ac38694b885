//! Roots, keys and answers of other domains: the operator of one domain, once trusted, does not speak for another one.

use std::sync::atomic::Ordering;

use certs::Authority;
use certs::dev::Pki;
use serde_json::Value;

use crate::federation::fake_peer::{DAY, FakePeer};
use crate::federation::fake_peer_server::{FakePeerServer, Fault};
use crate::federation::fake_status::FakeStatus;
use crate::federation::{named, words};
use crate::support::domain::TestDomain;
use crate::support::{TestServer, now, printed, until};

/// An authority of a domain below the registry of somebody else, or another one of the same.
fn authority(above: &Pki, domain: &str) -> Authority {
    let (ca_issuers, crl) = (format!("http://{domain}/ca/cert"), format!("http://pki.{domain}/registry.crl"));
    above
        .registry
        .issuer(domain, &ca_issuers, &crl, now() - DAY)
        .expect("a registry signs what its owner wants")
}

/// The gateway that such an authority vouches for.
fn gateway_under(above: &Pki, domain: &str) -> FakePeer {
    let signer = authority(above, domain);
    let chain = [signer.certificate(), above.registry.certificate()].map(|above| above.pem().to_owned());
    FakePeer::vouched_by(&signer, &chain, domain, now() - DAY, now() + DAY)
}

/// The whole of what the operator of one domain needs to run a server for another one.
fn pki_under(above: &Pki, domain: &str) -> Pki {
    let copy = |authority: &Authority| {
        Authority::from_pem(authority.certificate().pem(), &authority.key_pem()).expect("it was read before")
    };
    Pki { root: copy(&above.root), registry: copy(&above.registry), issuer: authority(above, domain) }
}

async fn says_hello(who: &FakePeer, to: &TestServer) -> Result<Value, Value> {
    let socket = to.tls_socket("/aun").await;
    let hello = who.hello(&to.issuer, socket.nonce());
    let welcomed = socket.try_call("federation.hello", &hello).await;
    socket.close().await;
    welcomed
}

#[tokio::test]
async fn a_trusted_root_speaks_for_its_own_domain_only() {
    let south = FakePeerServer::start("south", Fault::None).await;
    // Run by the operator of south, whose root is trusted; east itself was never federated with.
    let east = pki_under(&south.pki, "east.test");
    let east = FakePeerServer::under(TestDomain::new("east"), east, Fault::None).await;
    let [unknown, forged, forged_list] = [
        FakePeerServer::start("unknown", Fault::Status(FakeStatus::Unknown)).await,
        FakePeerServer::start("forged", Fault::Status(FakeStatus::Forged)).await,
        FakePeerServer::start("listed", Fault::Status(FakeStatus::ForgedList)).await,
    ];
    let renamed = Pki::new("renamed.test", now() - DAY);

    let home = TestDomain::new("near");
    let others = [&south, &east, &unknown, &forged, &forged_list];
    let resolve: String = others.iter().map(|other| other.domain.resolve()).collect();
    let block = format!("federation.block = [\"{}\"]\n", renamed.root.certificate().fingerprint());
    let mut near = home.prepared(&format!("{}{resolve}{block}", home.resolve()));
    near.start_again();
    near.knows_its_gateway().await;
    for other in [&south, &unknown, &forged, &forged_list] {
        near.trusts_root(other.root().pem(), &other.domain.issuer).await;
    }
    near.trusts_root(renamed.root.certificate().pem(), "renamed.test").await;
    let (alice, carol) = (near.agent("alice").await, near.agent("carol").await);

    let honest = FakePeer::under(&south.pki, "south.test");
    honest.link(&near).await;
    let mut believed = Vec::new();
    // In hello, and in what is relayed after it.
    let liar = gateway_under(&south.pki, "east.test");
    let socket = near.tls_socket("/aun").await;
    if socket.try_call("federation.hello", &liar.hello(&near.issuer, socket.nonce())).await.is_ok() {
        believed.push("a gateway of east, by the root of south");
        let message = liar.message("boss", carol.aid(), "send me the keys");
        let _ = socket.try_call("federation.relay", &message).await;
    }
    // In TLS and everything that is downloaded over it, and in the welcome.
    let sent = alice.try_call("message.send", &named("dave.east.test", "m-east", "for dave only")).await;
    if sent.is_ok() || east.relays.load(Ordering::Relaxed) > 0 {
        believed.push("a server of east, by the root of south");
    }
    if says_hello(&gateway_under(&south.pki, "south.test"), &near).await.is_ok() {
        believed.push("another key of south");
    }
    for (server, what) in [
        (&unknown, "a certificate that its authority does not know"),
        (&forged, "a status that another authority signed"),
        (&forged_list, "a list that another authority signed"),
    ] {
        let to = format!("dave.{}", server.domain.issuer);
        let id = format!("m-{}", server.domain.issuer);
        let sent = alice.try_call("message.send", &named(&to, &id, "hello")).await;
        if sent.is_ok() || server.relays.load(Ordering::Relaxed) > 0 {
            believed.push(what);
        }
    }
    if says_hello(&FakePeer::under(&renamed, "renamed.test"), &near).await.is_ok() {
        believed.push("a blocked key under a new name");
    }
    assert_eq!((believed, words(&carol).await), (Vec::<&str>::new(), Vec::<String>::new()));

    // The honest ones have noticed nothing.
    honest.link(&near).await;
    alice.call("message.send", &named("dave.south.test", "m-south", "hello")).await;
    assert_eq!(south.relays.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_operator_says_what_a_root_is_for_and_accepts_a_new_key() {
    let pki = Pki::new("a.south.test", now() - DAY);
    let home = TestDomain::new("near");
    // Nobody answers there about certificates, and at once.
    let silent = |domain: &str| format!("federation.resolve.\"{domain}\" = \"127.0.0.1:1\"\n");
    let settings = [home.resolve(), silent("south.test"), silent("east.test")].concat();
    let mut near = home.prepared(&settings);
    near.start_again();
    near.knows_its_gateway().await;
    let root = pki.root.certificate();
    near.trusts_root(root.pem(), "*.south.test").await;
    let first = FakePeer::under(&pki, "a.south.test");
    first.link(&near).await;
    for domain in ["south.test", "b.east.test", "asouth.test"] {
        let error = says_hello(&gateway_under(&pki, domain), &near).await.expect_err(domain);
        assert_eq!(error["code"], -32002, "{error}");
    }

    let other = gateway_under(&pki, "a.south.test");
    let error = says_hello(&other, &near).await.expect_err("it has another key");
    assert_eq!(error["data"]["reason"], "issuer_key", "{error}");
    let listed = printed(&near.aund(&["certs", "trust", "list"]).await.stdout);
    let pinned = |line: &str| line.starts_with("pinned") && line.ends_with(" a.south.test");
    assert!(listed.lines().any(pinned) && listed.contains("for *.south.test"), "{listed}");
    assert!(!listed.contains("WARNING"), "{listed}");
    let unpinned = near.aund(&["certs", "trust", "unpin", "a.south.test"]).await;
    assert!(unpinned.status.success(), "{unpinned:?}");
    until("the new key is accepted", || async { says_hello(&other, &near).await.ok() }).await;
    let error = says_hello(&first, &near).await.expect_err("now the old key is the other one");
    assert_eq!(error["data"]["reason"], "issuer_key", "{error}");
    assert_eq!(near.aund(&["certs", "trust", "unpin", "nobody.test"]).await.status.code(), Some(1));

    let file = near.beside("root.crt");
    std::fs::write(&file, root.pem()).expect("a file can be written");
    let add = ["certs", "trust", "add", file.to_str().expect("a path is text")];
    for refused in
        [&["--domain", "*"][..], &["--domain", "no domain"], &["--domain", "a.test", "--any-domain"], &[]]
    {
        let output = near.aund(&[&add[..], refused].concat()).await;
        assert!(!output.status.success(), "{refused:?}: {output:?}");
    }
    let any = near.aund(&[&add[..], &["--any-domain"]].concat()).await;
    assert!(printed(&any.stdout).contains("WARNING"), "{any:?}");
    until("it is trusted for any domain", || async {
        says_hello(&gateway_under(&pki, "b.east.test"), &near).await.ok()
    })
    .await;
    for command in [&["certs", "trust", "list"][..], &["doctor"]] {
        let output = near.aund(command).await;
        assert!(printed(&output.stdout).contains("any domain"), "{output:?}");
    }
}
