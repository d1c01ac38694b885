//! What a service decides about its outbox.

use super::Retry;
use std::time::Duration;

/// What rows hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// What is sent.
    Payload,
    /// That something has changed.
    Mark,
}

#[derive(Clone, Debug)]
pub struct OutboxSettings {
    /// The tables are `{name}_outbox`, `{name}_destination` and, where rows that ended are kept, `{name}_ended`.
    pub name: &'static str,
    pub kind: RowKind,
    pub retry: Retry,
    /// Longer than a page may take.
    pub lease: Duration,
    /// How many destinations are sent to at once.
    pub at_once: usize,
    /// How many pages a destination gets before it is the turn of others.
    pub turn_pages: usize,
    /// How many rows are sent in one page, and how large they may be together; one always is.
    pub page_rows: usize,
    pub page_bytes: i64,
    /// How many rows may wait for one destination: for a newer one the oldest is given up.
    pub most_waiting: Option<i64>,
    /// How many of the rows of a destination that ended are kept.
    pub kept_ended: i64,
    /// Rows may be withdrawn: which are being sent is written before they are.
    pub withdrawable: bool,
    /// Destinations are domains: one to which a link was proved is tried at once.
    pub to_peers: bool,
}

impl OutboxSettings {
    /// One row at a time, for each destination until nothing waits.
    pub const fn new(name: &'static str, kind: RowKind, retry: Retry) -> OutboxSettings {
        OutboxSettings {
            name,
            kind,
            retry,
            lease: Duration::from_secs(30),
            at_once: 1,
            turn_pages: usize::MAX,
            page_rows: 1,
            page_bytes: i64::MAX,
            most_waiting: None,
            kept_ended: 0,
            withdrawable: false,
            to_peers: false,
        }
    }
}
