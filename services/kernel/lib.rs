//! The kernel: what every service uses, and nothing that belongs to only one of them.

mod account;
mod account_totals;
pub mod agent_md;
mod agent_removal;
mod budget;
mod bus;
mod cache;
mod clock;
mod cpu_pool;
mod disk;
mod error;
mod event;
mod federation;
pub mod files;
mod hash;
pub mod http;
mod identity;
mod ids;
mod mesh;
mod network;
mod outbox;
mod page;
mod panics;
mod polling;
mod presence;
mod redis;
mod rpc;
mod service;
mod store;
pub mod strict_json;
pub mod trace;
mod world;

pub use account::{
    Account, AccountChange, AccountFull, AccountShare, ChangedLimits, Charge, ChargeError, CountedRows,
    HeldNow, Keeping, Kept, KeptRow, KeptSums, KeptTable, Payer, ShareLimits, TenantShares,
};
pub use account_totals::{AccountSettings, Accounts};
pub use agent_removal::{AgentRemover, RemoveAgent};
pub use budget::{ByteBudget, BytesOwner, EvictionSignal, HeldBytes, Holdings};
pub use bus::{Bus, BusStats, RedisBus, Subscription};
pub use cache::{Cache, ExpiringCache};
pub use clock::{Backoff, BackoffSchedule, Clock, from_iso, iso, iso_ms};
pub use cpu_pool::{CpuLimits, CpuOwner, CpuPool};
pub use disk::{Disk, DiskReading, DiskSpace, StoreLimits};
pub use error::RpcError;
pub use event::{Audience, Event};
pub use federation::{Forwarder, forward_for_agent, forward_for_service, forwarded_item, forwarded_result};
pub use hash::{sha256, sha256_hex};
pub use identity::{KnownCert, Purpose};
pub use ids::Ids;
pub use mesh::{
    CallTerm, Mesh, OnAnswer, PendingResponse, RemoteRoutes, RemoteService, ServiceRoutes, timed_out,
    unavailable,
};
pub use network::{AddressCounts, AddressLimit, CountedAddress, Network, is_private_address};
pub use outbox::{
    DestinationState, NewMark, NewOutboxRow, Outbox, OutboxEntry, OutboxPage, OutboxRow, OutboxSender,
    OutboxSettings, OutboxWithdrawal, OwnedDestinations, PageOutcome, Retry, RowEnd, RowKind, SendFailure,
    SendSlot, SendSlots, SettledRow,
};
pub use page::{PageLimit, PageLimitError};
pub use panics::{catch_panic, catch_panic_of};
pub use polling::await_polling;
pub use presence::{AnnouncedSession, Delivery, Mode, Presence, PresentSession};
pub use proto_schemas::{Aid, AidError, DeviceId, SlotId, codes};
pub use redis::RedisSettings;
pub use rpc::{
    Answer, AnswerRef, CallWay, Caller, CallerEvent, CallerKind, CallingAgent, Generation, IntoAnswer,
    MethodRefused, Methods, PendingAnswer, Relayed, ResultText, Rpc, TokenCaller, read_params,
};
pub use service::{AgentRemoval, Service, ServiceMetrics, SessionNotice, Task, TaskStatus, Tasks};
pub use store::{
    Batch, BatchError, Db, Durability, Engine, Lease, Leases, Statements, StoreStats, StoreUrl, Stores,
    Tally, is_disk_full, json_rows,
};
pub use trace::{CarriedTrace, Trace, TraceMode, TraceSpan, TracedCall};
pub use world::{ConfiguredService, OwnGateway, ServiceRow, ServiceSettings, World};
