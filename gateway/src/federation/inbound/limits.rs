//! What one inbound link may do. The first three are also in the welcome.

use std::time::Duration;

/// Relays of one link that may be in flight; beyond that the link is not read.
pub const IN_FLIGHT: u32 = 512;
/// Relays in one batch.
pub const BATCH_ITEMS: usize = 200;
/// How long a relay may take, whatever deadline the other gateway gives it.
pub const RELAY_TIMEOUT: Duration = Duration::from_secs(25);
/// The parameters or the payload of one relay: a payload of a mebibyte, and what is around it.
pub const PARAMS_BYTES: usize = (1 << 20) + (64 << 10);
