//! Calls of a connection that are not answered yet.

use crate::connection::Connection;
use crate::gateway::GatewayState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counts calls as in flight until it is dropped, however they end.
pub struct InFlight {
    pub connection: Arc<Connection>,
    calls: u32,
    limit: u32,
}

impl InFlight {
    pub fn new(gateway: &GatewayState, connection: &Arc<Connection>) -> InFlight {
        InFlight::many(gateway, connection, 1)
    }

    pub fn many(gateway: &GatewayState, connection: &Arc<Connection>, calls: u32) -> InFlight {
        connection.in_flight.fetch_add(calls, Ordering::Relaxed);
        InFlight { connection: connection.clone(), calls, limit: gateway.config.limits.in_flight }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let before = self.connection.in_flight.fetch_sub(self.calls, Ordering::Relaxed);
        // A connection at its limit is not read: its task has to be woken to read again.
        if before >= self.limit {
            self.connection.outbox.wake_reader();
        }
    }
}
