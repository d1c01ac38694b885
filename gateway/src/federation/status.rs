//! `gateway.status`: how this gateway does, for services and the operator.

use super::Federation;
use crate::connection::SessionCounts;
use kernel::{Caller, RpcError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct StatusParams {}

#[derive(Serialize)]
pub(super) struct ReportedGateway {
    issuer: String,
    version: &'static str,
    uptime_ms: i64,
    connections: usize,
    agents: usize,
    long_sessions: usize,
    short_sessions: usize,
    domain_sessions: usize,
    outbox_bytes: usize,
    namespaces: BTreeMap<&'static str, &'static str>,
}

impl Federation {
    pub(super) async fn status(
        self: Arc<Self>,
        _: Caller,
        _: StatusParams,
    ) -> Result<ReportedGateway, RpcError> {
        let sessions = self.sessions()?;
        let SessionCounts { connections, agents, long, short } = sessions.counts();
        let word = |up: bool| if up { "up" } else { "down" };
        let namespaces = self.mesh.health().into_iter().map(|(name, up)| (name, word(up))).collect();
        Ok(ReportedGateway {
            issuer: self.issuer().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
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
