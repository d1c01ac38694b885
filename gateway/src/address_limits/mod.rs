//! Limits by address: each counts for the address and for the networks around it, as [`kernel::AddressLimit`] says.

mod rates;
mod recent_keys;
mod windows;

pub use rates::AddressRates;
pub use recent_keys::{KeyedRates, keyed_rates};
pub use windows::AddressWindows;

use kernel::Network;
use std::time::Duration;

/// The limit of an address, or of a network around it, is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRefusal {
    pub network: Network,
    pub wait: Duration,
}

impl AddressRefusal {
    /// Whose limit it is, for the error.
    pub fn whose(&self) -> &'static str {
        match self.network.is_one() {
            true => "this address",
            false => "the network of this address",
        }
    }
}
