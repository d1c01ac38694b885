//! Calls of a connection that are not answered yet.

use crate::connection::Connection;
use crate::gateway::GatewayState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counts a call as in flight until it is dropped, however it ends.
pub struct InFlight {
    pub connection: Arc<Connection>,
    limit: u32,
}

impl InFlight {
    pub fn new(gateway: &GatewayState, connection: &Arc<Connection>) -> InFlight {
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { connection: connection.clone(), limit: gateway.config.limits.in_flight }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let before = self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
        // A connection at its limit is not read: its task has to be woken to read again.
        if before >= self.limit {
            self.connection.outbox.wake_reader();
        }
    }
}
