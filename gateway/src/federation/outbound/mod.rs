//! Our links to other domains. What is to be relayed to a domain waits in its peer queue; one task per domain dials its
//! gateway, sends the queue over the link, and matches the answers to their calls.

mod answer;
mod breaker;
pub mod dial;
mod frames;
mod new_domains;
mod open_links;
mod peer_counters;
mod peer_link;
mod peer_queue;
mod peer_task;
mod pending_relay;
mod pool;

pub use open_links::OpenLink;
pub use pending_relay::RelayOutcome;
pub use pool::PeerPool;
