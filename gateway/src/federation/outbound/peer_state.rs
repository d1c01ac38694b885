//! The state of the links to and from another domain, as the operator sees it.

use serde::Serialize;

/// The state of our link to a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboundState {
    #[default]
    None,
    Idle,
    Connecting,
    Up,
    Down,
}

/// One domain in the answer of `gateway.peers`.
#[derive(Clone, Debug, Serialize)]
pub struct PeerState {
    pub issuer: String,
    pub outbound: OutboundState,
    pub inbound: usize,
    pub url: Option<String>,
    pub waiting: usize,
    pub waiting_bytes: usize,
    pub in_flight: usize,
    pub oldest_ms: u64,
    pub relayed: u64,
    pub failed: u64,
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
}

impl PeerState {
    /// A domain that nothing was ever queued for.
    pub fn without_queue(issuer: String) -> PeerState {
        PeerState {
            issuer,
            outbound: OutboundState::None,
            inbound: 0,
            url: None,
            waiting: 0,
            waiting_bytes: 0,
            in_flight: 0,
            oldest_ms: 0,
            relayed: 0,
            failed: 0,
            last_error: None,
            retry_in_ms: None,
        }
    }
}
