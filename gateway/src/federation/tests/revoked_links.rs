//! Links whose gateway is revoked while they are up.

use super::status_answers::{answer_status, ocsp};
use super::support::inbound_link::InboundLink;
use super::support::two_domains::TwoDomains;
use certs::{OcspStatus, Reason};
use proto_schemas::requests::gateway::OutboundState;
use serde_json::json;

/// From now on the other domain says this of the certificate of its gateway, or nothing.
fn says(domains: &TwoDomains, status: Option<OcspStatus>) {
    let answer = status.map(|status| ocsp(domains, &domains.remote.ca, status));
    answer_status(domains, answer, None);
}

const REVOKED: OcspStatus = OcspStatus::Revoked { at: 1, reason: Reason::KeyCompromise };

#[tokio::test]
async fn our_link_to_a_revoked_gateway_ends() {
    let domains = TwoDomains::new().await;
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    call.await.unwrap().unwrap();

    for status in [Some(OcspStatus::Good), None] {
        says(&domains, status);
        domains.fed.close_revoked_links().await;
        let [open] = &domains.peers().open_links.all()[..] else { panic!("one link") };
        assert!(!open.is_revoked(), "{status:?}");
    }
    says(&domains, Some(REVOKED));
    domains.fed.close_revoked_links().await;
    assert!(link.next().await.is_none(), "it was closed");
    domains.until(|peer| peer.outbound != OutboundState::Up).await;
    let error = domains.send("r2").await.unwrap().unwrap_err();
    assert_eq!(error.data("reason"), Some(&json!("certificate_revoked")), "{error}");
}

#[tokio::test]
async fn the_link_of_a_revoked_gateway_to_us_ends() {
    let link = InboundLink::open(TwoDomains::new().await).await;
    for status in [Some(OcspStatus::Good), None] {
        says(&link.domains, status);
        link.domains.fed.close_revoked_links().await;
        assert_eq!(link.close_code(), None, "{status:?}");
    }
    says(&link.domains, Some(REVOKED));
    link.domains.fed.close_revoked_links().await;
    assert_eq!(link.close_code(), Some(4001));
}
