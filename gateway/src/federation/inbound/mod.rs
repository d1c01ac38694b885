//! The links of other domains to us: their gateways prove who they are (`federation.hello`), and then relay the calls of
//! their agents and services, and events, to us.

mod accept;
mod event;
mod foreign_caller;
mod limits;
mod named_aids;
mod named_members;
mod relay;
pub(super) mod relay_batch;
mod relay_task;
mod seen;

pub use accept::{InboundPeer, InboundPeers};
pub(super) use event::without_route;
pub use limits::IN_FLIGHT;
pub use seen::{HelloNonces, SeenRelays};
