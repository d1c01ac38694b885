//! Domains that were never reached, and that one agent names many of.

use super::link::code_and_reason;
use super::support::two_domains::{ASKER, LONG, OURS, THEIRS, TwoDomains, relay};
use serde_json::json;
use tokio::net::TcpListener;

/// A domain whose every name leads to a listener that never says anything.
async fn silent() -> (TwoDomains, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let domains = TwoDomains::with(|config| {
        config.federation.peers = 12;
        config.federation.new_domains_per_agent = 2;
        config.federation.resolve.insert("silent.example".to_owned(), at.to_string());
    })
    .await;
    (domains, listener)
}

/// Whether an agent may have one more domain dialled, and if not why.
fn asks(domains: &TwoDomains, asker: &str, issuer: &str) -> Option<(i32, String)> {
    let text = relay("send", "r1", json!({})).text().unwrap();
    let begun = domains.peers().begin(&domains.fed, issuer, asker, text, LONG);
    let error = begun.err()?;
    let (code, reason) = code_and_reason(&error);
    Some((code, reason.to_owned()))
}

#[tokio::test]
async fn an_agent_that_names_many_domains_takes_nothing_from_known_ones() {
    let (domains, _listener) = silent().await;
    let bobb = format!("bobb.{OURS}");
    let refused = |reason: &str| Some((-32010, reason.to_owned()));
    assert_eq!(asks(&domains, ASKER, "a.silent.example"), None);
    assert_eq!(asks(&domains, ASKER, "b.silent.example"), None);
    assert_eq!(
        asks(&domains, ASKER, "a.silent.example"),
        None,
        "one that is being dialled costs nothing more"
    );
    assert_eq!(asks(&domains, ASKER, "c.silent.example"), refused("new_domains"));
    assert_eq!(asks(&domains, &bobb, "c.silent.example"), None, "another agent has its own");
    assert_eq!(asks(&domains, &bobb, "d.silent.example"), refused("pool_full"), "a quarter of all queues");

    let call = domains.send("known");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    call.await.unwrap().unwrap();
    assert_eq!(asks(&domains, ASKER, THEIRS), None);
    domains.peers().mark_reachable("e.silent.example");
    assert_eq!(asks(&domains, ASKER, "e.silent.example"), None, "its gateway has been here");
}
