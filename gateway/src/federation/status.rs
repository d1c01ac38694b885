//! `gateway.status`: how this gateway does, for services and the operator.

use super::Federation;
use crate::connection::SessionCounts;
use kernel::{Caller, RpcError, is_private_address};
use proto_schemas::requests::gateway::{ClientAddresses, GatewayStatus, Status};
use std::collections::HashMap;
use std::net::IpAddr;
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
            client_addresses: summary(&sessions.addresses()),
            outbox_bytes: sessions.outbox_bytes(),
            namespaces,
        })
    }
}

/// Of the addresses of all sessions.
fn summary(addresses: &[IpAddr]) -> ClientAddresses {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for address in addresses {
        *counts.entry(address.to_canonical()).or_default() += 1;
    }
    let largest = counts.into_iter().max_by_key(|(_, count)| *count);
    ClientAddresses {
        sessions: addresses.len(),
        private_sessions: addresses.iter().filter(|address| is_private_address(**address)).count(),
        largest: largest.map(|(address, _)| address.to_string()),
        largest_sessions: largest.map_or(0, |(_, count)| count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_most_sessions_have_is_named() {
        assert_eq!(summary(&[]), ClientAddresses::default());
        let addresses = ["10.0.0.7", "192.0.2.1", "::ffff:10.0.0.7", "2001:db8::1"];
        let summary = summary(&addresses.map(|address| address.parse().unwrap()));
        let largest = Some("10.0.0.7".to_owned());
        let wanted = ClientAddresses { sessions: 4, private_sessions: 2, largest, largest_sessions: 2 };
        assert_eq!(summary, wanted);
    }
}
