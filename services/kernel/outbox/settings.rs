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

/// Limits for destinations that belong to one owner each.
#[derive(Clone, Copy, Debug)]
pub struct OwnedDestinations {
    /// How many destinations of one owner are sent to at once.
    pub at_once: usize,
    /// How many of all that are sent to at once are kept for destinations to which the last row was delivered.
    pub kept_for_answering: usize,
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
    /// Set where each destination belongs to one owner: they take turns, too.
    pub owned: Option<OwnedDestinations>,
    /// How many pages a destination gets before it is the turn of others.
    pub turn_pages: usize,
    /// How many rows are sent in one page, and how large they may be together; one always is.
    pub page_rows: usize,
    pub page_bytes: i64,
    /// How many rows may wait for one destination: for a newer one the oldest is given up.
    pub most_waiting: Option<i64>,
    /// How many rows of one owner may wait: for a newer one the owner's oldest is given up. Those for one destination, or for all
    /// where destinations belong to owners.
    pub most_of_owner: Option<i64>,
    /// What the data of a row is about: a newer row about the same replaces one that waits for the same destination.
    pub subject: Option<fn(&str) -> Option<String>>,
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
            owned: None,
            turn_pages: usize::MAX,
            page_rows: 1,
            page_bytes: i64::MAX,
            most_waiting: None,
            most_of_owner: None,
            subject: None,
            kept_ended: 0,
            withdrawable: false,
            to_peers: false,
        }
    }
}
