//! What `auth.connect` makes of a connection.

use crate::admission::{AgentLimit, CallSource, KnownSigner};
use kernel::{AnnouncedSession, CallingAgent, Delivery, PresentSession, Subscription};
use serde_json::value::RawValue;
use std::sync::Arc;

pub struct OpenSession {
    /// Who it is, as services see it.
    pub session: CallingAgent,
    pub kind: ConnectionKind,
    pub delivery: Delivery,
    pub extra_info: Option<Box<RawValue>>,
    /// What the client declared that it can do.
    pub capabilities: Option<Box<RawValue>>,
    /// Orders the sessions of an agent; set when it is opened.
    pub since_ms: i64,
    /// The connections that were evicted for it; set then, too.
    pub instead_of: Vec<u64>,
    /// While it lives, the agent's events come to this process.
    pub _subscription: Option<Subscription>,
    pub limit: Arc<AgentLimit>,
    /// The agent's current certificate, once a signed call needed it.
    pub signer: KnownSigner,
    /// When the agent's tokens were revoked for the last time before the one that opened it, if ever.
    pub tokens_revoked_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    Long,
    /// Closed after so many milliseconds without a call; `None` never.
    Short(Option<u64>),
}

impl OpenSession {
    /// Who is calling, for admission.
    pub fn source(&self) -> CallSource<'_> {
        CallSource::Session {
            aid: &self.session.aid,
            address: self.session.address,
            limit: &self.limit,
            signer: &self.signer,
        }
    }

    /// What other gateways are told of it.
    pub(super) fn announced(&self) -> AnnouncedSession {
        let CallingAgent { device, slot, address, connection, .. } = &self.session;
        AnnouncedSession {
            session: PresentSession {
                connection: *connection,
                device: device.clone(),
                slot: slot.clone(),
                address: *address,
                delivery: self.delivery.clone(),
            },
            long: self.kind == ConnectionKind::Long,
            since_ms: self.since_ms,
            extra_info: self.extra_info.clone(),
            capabilities: self.capabilities.clone(),
            instead_of: self.instead_of.clone(),
        }
    }
}
