//! `gateway.status`: how this gateway does, for services and the operator.

use super::Federation;
use crate::connection::SessionCounts;
use kernel::{Caller, RpcError};
use proto_schemas::requests::gateway::{GatewayStatus, Status};
use std::sync::Arc;

impl Federation {
    pub(super) async fn status(self: Arc<Self>, _: Caller, _: Status) -> Result<GatewayStatus, RpcError> {
        let sessions = self.sessions()?;
        let SessionCounts { connections, agents, long, short } = sessions.counts();
        let word = |up: bool| if up { "up" } else { "down" };
        let namespaces = self.mesh.health().into_iter();
        let namespaces = namespaces.map(|(name, up)| (name.to_owned(), word(up).to_owned())).collect();
        Ok(GatewayStatus {
            issuer: self.issuer().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: (self.clock.now_ms() - self.opened_ms).max(0),
            connections,
            agents,
            long_sessions: long,
            short_sessions: short,
            domain_sessions: sessions.present(),
            outbox_bytes: sessions.outbox_bytes(),
            namespaces,
        })
    }
}
