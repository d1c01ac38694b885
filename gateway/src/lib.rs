//! aund: the server that agents connect to. The gateway terminates authenticated WebSocket connections, speaks HTTP beside
//! them, and hands every call to the service that owns its namespace.

pub mod admin;
pub mod bench;
pub mod capabilities;
pub mod cli;
pub mod client;
pub mod config;
mod dispatch;
mod event_order;
mod events;
pub mod federation;
pub mod frame;
mod gateway;
mod http;
mod limits;
mod listen;
mod mesh;
mod notify;
mod params;
mod readiness;
mod resync;
pub mod run;
mod session;
mod signals;
mod signature;
mod status;
pub mod strict;
pub mod telemetry;
mod tls;
mod tls_verifier;
mod trace;
