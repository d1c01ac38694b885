//! How much the gateway accepts, from whom, and how long it waits.

use super::Config;
use kernel::{AddressLimit, CpuLimits};
use proto_schemas::RateClass;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Clients reconnect after a second or two: this spreads them without keeping the operator waiting.
const DRAIN_WINDOW_MS: u64 = 5_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Sockets of any kind, in total and per address.
    pub sockets: usize,
    pub sockets_per_address: u32,
    /// Sockets that have not finished their TLS and HTTP handshake: in total, per address, and per network (IPv4 /24, IPv6 /56).
    /// At the limit, a new socket replaces the oldest silent one.
    pub handshakes: usize,
    pub handshakes_per_address: u32,
    pub handshakes_per_prefix: u32,
    /// How long a handshake may take.
    pub handshake_timeout_ms: u64,
    /// How long a WebSocket may stay without a successful `auth.connect`.
    pub auth_timeout_ms: u64,
    /// New sockets per address, per second.
    pub connects_per_second: u32,
    /// HTTP requests per address, per second.
    pub http_per_second: u32,
    /// `auth.create_aid` per address, per minute.
    pub registrations_per_minute: u32,
    /// `auth.create_aid` per address and per network (IPv4 /24, IPv6 /56), per day. Loopback and private addresses have no daily
    /// limit.
    pub registrations_per_day: u32,
    pub registrations_per_day_per_prefix: u32,
    /// Login calls per AID and address, per minute.
    pub logins_per_minute: u32,
    /// Failed logins, refreshes and hellos of other gateways, per address and per network (IPv4 /24, IPv6 /56), per minute.
    /// Successful ones do not count.
    pub login_failures_per_minute: u32,
    pub login_failures_per_prefix: u32,
    /// Calls per minute of other rate classes, by name: `"task.create" = 60`. The namespaces declare them.
    pub classes: BTreeMap<String, u32>,
    /// Calls per socket before login.
    pub preauth_calls: u32,
    /// Calls per AID and second, over all its connections.
    pub calls_per_second: u32,
    /// The largest accepted frame, after and before login.
    pub frame_bytes: usize,
    pub preauth_frame_bytes: usize,
    /// Bytes of unfinished frames, over all connections. Above it, the agent or network that sent most of them loses a connection.
    pub frame_total_bytes: usize,
    /// Bytes that wait to be written: per connection, per agent, and in total. Above a limit, the connections that hold most are
    /// closed.
    pub outbox_bytes: usize,
    pub outbox_agent_bytes: usize,
    pub outbox_total_bytes: usize,
    /// Calls in flight per connection; each call of a batch counts. At the limit, the server stops reading from the connection.
    pub in_flight: u32,
    /// The time limit of a call. Clients give up after 35 seconds.
    pub call_timeout_ms: u64,
    /// A connection that is silent for the interval is pinged, and closed if it does not answer within the time-out.
    pub ping_interval_ms: u64,
    pub ping_timeout_ms: u64,
    /// How long a write may block before the connection is closed.
    pub write_timeout_ms: u64,
    /// Bytes of HTTP answers that wait to be read, over all connections. Above it, the network that holds most loses a connection.
    pub http_unread_total_bytes: usize,
    /// The size of the answers to one array of calls over HTTP, and how many of its calls run concurrently.
    pub array_answer_bytes: usize,
    pub array_in_flight: u8,
    /// Jobs that wait for a CPU (manifests, certificates, agents of other domains), per process: in total, per agent or other
    /// domain, and per address before login.
    pub cpu_waiting: usize,
    pub cpu_waiting_per_agent: usize,
    pub cpu_waiting_per_address: usize,
    /// CPU time of such jobs per agent or other domain, per minute.
    pub cpu_ms_per_minute: u64,
    /// Open streams over HTTP, such as those of events: in total, and per caller (an agent, the subject of another token, or the
    /// address of a client without a token).
    pub streams: usize,
    pub streams_per_caller: u32,
    /// How long a client may be silent while it sends the body of an HTTP request.
    pub body_silence_ms: u64,
    /// How long a stopping server waits for calls in flight.
    pub drain_timeout_ms: u64,
    /// The period over which a stopping server closes its connections, so that other gateways do not get all clients at once.
    /// Default: 5 seconds with Redis, otherwise 0.
    pub drain_window_ms: Option<u64>,
}

impl Config {
    /// Over how long connections are closed when the server stops: at once if no other gateway can take the clients.
    pub fn drain_window_ms(&self) -> u64 {
        let wide = if self.redis().is_some() { DRAIN_WINDOW_MS } else { 0 };
        self.limits.drain_window_ms.unwrap_or(wide.min(self.limits.drain_timeout_ms / 2))
    }
}

impl LimitsConfig {
    /// What is accepted of a rate class.
    pub fn per_minute(&self, class: &RateClass) -> u32 {
        match class.name {
            "auth.register" => self.registrations_per_minute,
            "auth.login" => self.logins_per_minute,
            name => self.classes.get(name).copied().unwrap_or(class.per_minute),
        }
    }

    pub fn cpu(&self) -> CpuLimits {
        CpuLimits {
            waiting: self.cpu_waiting,
            waiting_per_agent: self.cpu_waiting_per_agent,
            waiting_per_address: self.cpu_waiting_per_address,
            time_per_minute: Duration::from_millis(self.cpu_ms_per_minute),
        }
    }

    /// What is accepted of a rate class from a public address within a day, where that is limited.
    pub fn per_day(&self, class: &RateClass) -> Option<AddressLimit> {
        let limit = AddressLimit::per_address(self.registrations_per_day);
        (class.name == "auth.register").then(|| limit.per_network(self.registrations_per_day_per_prefix))
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        let cpu = CpuLimits::default();
        LimitsConfig {
            sockets: 60_000,
            sockets_per_address: 20_000,
            handshakes: 16_384,
            handshakes_per_address: 4_096,
            handshakes_per_prefix: 8_192,
            handshake_timeout_ms: 10_000,
            auth_timeout_ms: 30_000,
            connects_per_second: 2_000,
            http_per_second: 500,
            registrations_per_minute: 600,
            registrations_per_day: 1_000,
            registrations_per_day_per_prefix: 5_000,
            logins_per_minute: 120,
            login_failures_per_minute: 300,
            login_failures_per_prefix: 1_200,
            classes: BTreeMap::new(),
            preauth_calls: 20,
            calls_per_second: 1_000,
            frame_bytes: (1 << 20) + (256 << 10),
            preauth_frame_bytes: 64 << 10,
            frame_total_bytes: 256 << 20,
            outbox_bytes: 4 << 20,
            outbox_agent_bytes: 32 << 20,
            outbox_total_bytes: 256 << 20,
            in_flight: 64,
            call_timeout_ms: 30_000,
            ping_interval_ms: 30_000,
            ping_timeout_ms: 20_000,
            write_timeout_ms: 20_000,
            http_unread_total_bytes: 128 << 20,
            array_answer_bytes: 4 << 20,
            array_in_flight: 8,
            cpu_waiting: cpu.waiting,
            cpu_waiting_per_agent: cpu.waiting_per_agent,
            cpu_waiting_per_address: cpu.waiting_per_address,
            cpu_ms_per_minute: cpu.time_per_minute.as_millis() as u64,
            streams: 10_000,
            streams_per_caller: 64,
            body_silence_ms: 10_000,
            drain_timeout_ms: 10_000,
            drain_window_ms: None,
        }
    }
}
