//! The turn of a destination: what is sent to it while this process has its lease.

use crate::Lease;

/// What is known of a destination while this process sends to it.
pub(super) struct SendTurn {
    pub lease: Lease,
    /// Failures in a row.
    pub attempts: i64,
    pub pages: usize,
    /// The owner whose row was the last one of the last page: the next page begins with the owner after it.
    pub last_owner: String,
    /// The rows of the page that is being sent, where it matters whether one may have arrived.
    pub sending: Vec<String>,
}

/// How a destination stands after a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterPage {
    /// Its next page follows.
    Next,
    /// Its lease was given back, or another process has it.
    Over,
}
