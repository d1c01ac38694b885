//! Connections as others see them: a socket's outbox, the session it opened, and all sessions of this gateway.
//!
//! The task that owns a socket is in [`crate::session`]; whoever has something for the socket puts it into its outbox.

mod close_reason;
mod event_numbers;
mod eviction;
mod open_session;
mod outbox;
mod outbox_budget;
mod recent_revocations;
mod relief;
mod sessions;
#[cfg(test)]
mod tests;

pub use close_reason::CloseReason;
pub use open_session::{ConnectionKind, OpenSession};
pub use outbox::{ConnectionOutbox, OutboxItem};
pub use outbox_budget::OutboxBudget;
pub use sessions::{SessionCounts, Sessions};

use kernel::Generation;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// What the id of a connection begins with, as clients and services know it; its number follows.
pub const CONNECTION_ID: &str = "conn_gateway-client-";

/// The id of the connection with this number.
pub fn connection_id(number: u64) -> String {
    format!("{CONNECTION_ID}{number}")
}

/// The number in the id of a connection.
pub fn connection_number(id: &str) -> Option<u64> {
    id.strip_prefix(CONNECTION_ID)?.parse().ok()
}

/// One socket, as others see it.
pub struct Connection {
    pub id: u64,
    pub address: IpAddr,
    pub outbox: ConnectionOutbox,
    /// Calls that are not answered yet.
    pub in_flight: AtomicU32,
    /// Whether `event/meta.capabilities_changed` was subscribed to.
    pub wants_capabilities: AtomicBool,
    /// The server drains it: new calls are refused, and it is closed when the others are answered.
    pub drains: AtomicBool,
    /// The newest number it was sent of each series that has repeatable events.
    newest: Mutex<Vec<SeriesNumber>>,
    session: OnceLock<OpenSession>,
}

/// The number that an event has in its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesNumber {
    pub series: &'static str,
    pub number: i64,
    /// Whether the event may be repeated, with the newest number there is.
    pub repeatable: bool,
}

impl Connection {
    pub fn new(id: u64, address: IpAddr, outbox: ConnectionOutbox) -> Connection {
        Connection {
            id,
            address,
            outbox,
            in_flight: AtomicU32::new(0),
            wants_capabilities: AtomicBool::new(false),
            drains: AtomicBool::new(false),
            newest: Mutex::default(),
            session: OnceLock::new(),
        }
    }

    /// The session that `auth.connect` opened on it.
    pub fn session(&self) -> Option<&OpenSession> {
        self.session.get()
    }

    /// Whether its client may be sent repeated events. One that asks sender by sender knows by itself what is unread.
    pub fn may_be_reminded(&self) -> bool {
        self.session().is_some_and(|open| open.session.generation != Generation::Peer)
    }

    /// Events are for long connections only.
    pub fn is_long(&self) -> bool {
        self.session().is_some_and(|open| open.kind == ConnectionKind::Long)
    }
}
