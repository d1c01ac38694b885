//! The kernel: what every service uses, and nothing that belongs to only one of them.

mod aid;
mod batch;
mod bus;
mod clock;
mod error;
mod event;
mod federation;
pub mod files;
mod identity;
mod ids;
mod known_cert;
mod mesh;
mod panics;
mod presence;
mod redis;
mod rpc;
mod store;
mod world;

pub use aid::{Aid, AidError, DeviceId, SlotId};
pub use batch::{Batch, BatchError};
pub use bus::{Bus, BusStats, RedisBus, Subscription};
pub use clock::Clock;
pub use error::RpcError;
pub use event::{Audience, Event};
pub use federation::{
    DispatchEvent, EventTargets, Forward, ForwardBatch, ForwardOutcome, Forwarded, ForwardedBatch, Forwarder,
};
pub use identity::Purpose;
pub use ids::Ids;
pub use known_cert::KnownCert;
pub use mesh::{CallTerm, Mesh, OnAnswer, RemoteService, timed_out, unavailable};
pub use panics::{catch_panic, catch_panic_of};
pub use presence::{AnnouncedSession, Delivery, Mode, Presence, PresentSession};
pub use proto_schemas::codes;
pub use redis::RedisSettings;
pub use rpc::{
    Answer, AnswerRef, Caller, CallerEvent, Generation, IntoAnswer, Methods, Module, PendingAnswer, Relayed,
    Rpc, Session, Trace, TraceMode,
};
pub use store::{Db, Durability, Engine, StoreStats, StoreUrl, Stores, Tally};
pub use world::World;
