//! How much one address or one agent may ask for, and how many sockets there may be.

use crate::address_limits::{AddressRates, AddressRefusal};
use crate::config::LimitsConfig;
use crate::shared_limits::{HandshakeLimits, HandshakeSlot, Handshakes};
use governor::clock::{Clock as _, DefaultClock};
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use kernel::{AddressCounts, AddressLimit, Aid, CountedAddress, EvictionSignal, RpcError, codes};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The calls of one agent, shared by all its connections.
pub type AgentLimit = RateLimiter<NotKeyed, InMemoryState, DefaultClock>;

pub struct GatewayLimits {
    connects: AddressRates,
    http: AddressRates,
    calls: Quota,
    /// Of the agents that are connected, or called over HTTP a moment ago.
    agents: Mutex<HashMap<Aid, Arc<AgentLimit>>>,
    /// More agents than can be connected at once, so that most of a full table can be forgotten.
    most_agents: usize,
    sockets: Arc<Semaphore>,
    handshakes: Arc<Handshakes>,
    per_address: Arc<AddressCounts>,
    pub http_per_second: u32,
}

/// The limit for which a socket is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketLimit {
    Sockets,
    Address,
    Rate,
}

/// One socket, counted until this is dropped.
pub struct SocketPermit {
    _socket: OwnedSemaphorePermit,
    _address: CountedAddress,
}

impl GatewayLimits {
    pub fn new(config: &LimitsConfig) -> GatewayLimits {
        GatewayLimits {
            connects: AddressRates::new(AddressLimit::per_address(config.connects_per_second), per_second),
            http: AddressRates::new(AddressLimit::per_address(config.http_per_second), per_second),
            calls: per_second(config.calls_per_second),
            agents: Mutex::default(),
            most_agents: config.sockets.saturating_mul(2).max(1024),
            sockets: Arc::new(Semaphore::new(config.sockets)),
            handshakes: Handshakes::new(HandshakeLimits {
                most: config.handshakes,
                by_address: AddressLimit::per_address(config.handshakes_per_address)
                    .per_network(config.handshakes_per_prefix),
            }),
            per_address: AddressCounts::new(AddressLimit::per_address(config.sockets_per_address)),
            http_per_second: config.http_per_second,
        }
    }

    /// Whether a new socket from there costs another one its slot.
    pub fn handshakes_are_full(&self, from: IpAddr) -> bool {
        self.handshakes.are_full(from)
    }

    /// Counts a new socket, and its handshake until that is done. The signal says that another needs its slot.
    pub fn admit(
        &self,
        from: IpAddr,
        signal: &Arc<EvictionSignal>,
    ) -> Result<(SocketPermit, HandshakeSlot), SocketLimit> {
        let socket = self.socket()?;
        self.admit_client(socket, from, signal)
    }

    /// One of all sockets, wherever it comes from.
    fn socket(&self) -> Result<OwnedSemaphorePermit, SocketLimit> {
        self.sockets.clone().try_acquire_owned().map_err(|_| SocketLimit::Sockets)
    }

    /// Counts a socket of a balancer, until it has said which client it is for.
    pub fn admit_balancer(
        &self,
        balancer: IpAddr,
        signal: &Arc<EvictionSignal>,
    ) -> Result<(OwnedSemaphorePermit, HandshakeSlot), SocketLimit> {
        Ok((self.socket()?, self.handshakes.begin(balancer, signal)))
    }

    /// Counts a socket whose client is known.
    pub fn admit_client(
        &self,
        socket: OwnedSemaphorePermit,
        from: IpAddr,
        signal: &Arc<EvictionSignal>,
    ) -> Result<(SocketPermit, HandshakeSlot), SocketLimit> {
        self.connects.check(from, &()).map_err(|_| SocketLimit::Rate)?;
        let address = self.per_address.take(from).ok_or(SocketLimit::Address)?;
        let permit = SocketPermit { _socket: socket, _address: address };
        // Last, because nobody gives up a slot for a socket that is refused.
        Ok((permit, self.handshakes.begin(from, signal)))
    }

    /// The error says how long to wait.
    pub fn http(&self, address: IpAddr) -> Result<(), Duration> {
        self.http.check(address, &()).map_err(|AddressRefusal { wait, .. }| wait)
    }

    /// The limiter of an agent: the same for all its connections and requests.
    pub fn agent(&self, aid: &Aid) -> Arc<AgentLimit> {
        let mut agents = self.agents.lock();
        if let Some(limit) = agents.get(aid) {
            return limit.clone();
        }
        if agents.len() >= self.most_agents {
            forget_absent(&mut agents);
        }
        let limit = Arc::new(RateLimiter::direct(self.calls));
        agents.insert(aid.clone(), limit.clone());
        limit
    }

    /// Forgets addresses and agents that have been quiet, so that the tables do not grow with everyone ever seen.
    pub fn forget_quiet(&self) {
        self.connects.forget_quiet();
        self.http.forget_quiet();
        forget_absent(&mut self.agents.lock());
    }
}

/// Only those are kept whose limit somebody else has, too.
fn forget_absent(agents: &mut HashMap<Aid, Arc<AgentLimit>>) {
    agents.retain(|_, limit| Arc::strong_count(limit) > 1);
}

pub fn within_agent_rate(limit: &AgentLimit) -> Result<(), RpcError> {
    limit.check().map_err(|until| too_fast("calls of this agent", until.wait_time_from(now())))
}

pub(super) fn now() -> <DefaultClock as governor::clock::Clock>::Instant {
    DefaultClock::default().now()
}

pub(super) fn too_fast(what: &str, wait: Duration) -> RpcError {
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    RpcError::new(codes::RATE_LIMITED, format!("too many {what}; try again in {ms} ms"))
        .with("retry_after_ms", ms)
}

pub fn per_second(rate: u32) -> Quota {
    Quota::per_second(NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN))
}

pub(super) fn per_minute(rate: u32) -> Quota {
    Quota::per_minute(NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> GatewayLimits {
        GatewayLimits::new(
            &crate::config::Config::parse(text, &crate::config::test_services()).unwrap().limits,
        )
    }

    fn admit(limits: &GatewayLimits, from: IpAddr) -> Result<(SocketPermit, HandshakeSlot), SocketLimit> {
        limits.admit(from, &Arc::default())
    }

    #[test]
    fn a_dropped_permit_is_free_again() {
        let (limits, home) = (limits("limits.sockets_per_address = 1"), "127.0.0.1".parse().unwrap());
        let permit = admit(&limits, home).unwrap();
        assert_eq!(admit(&limits, home).err(), Some(SocketLimit::Address));
        drop(permit);
        assert!(admit(&limits, home).is_ok());
        assert!(limits.per_address.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let limits = limits("limits.connects_per_second = 1");
        assert!(admit(&limits, "2001:db8::1".parse().unwrap()).is_ok());
        assert_eq!(admit(&limits, "2001:db8::2".parse().unwrap()).err(), Some(SocketLimit::Rate));
        assert!(admit(&limits, "2001:db8:0:1::1".parse().unwrap()).is_ok());
    }

    #[test]
    fn an_agent_has_one_limit_over_all_its_connections() {
        let (limits, alice) = (limits("limits.calls_per_second = 2"), Aid::parse("alice.aid.pub").unwrap());
        let (first, second) = (limits.agent(&alice), limits.agent(&alice));
        within_agent_rate(&first).unwrap();
        within_agent_rate(&second).unwrap();
        assert_eq!(within_agent_rate(&first).unwrap_err().code(), -32029);
        drop((first, second));
        limits.forget_quiet();
        assert!(limits.agents.lock().is_empty());
    }
}
