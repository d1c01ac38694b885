//! aund: the server that agents connect to. The gateway terminates authenticated WebSocket connections, speaks HTTP beside
//! them, and hands every call to the service that owns its namespace.

pub mod admin;
pub mod bench;
pub mod capabilities;
pub mod cli;
pub mod client;
pub mod config;
mod dispatch;
mod gateway;
mod events;
pub mod federation;
pub mod frame;
mod resync;
mod http;
mod tls_verifier;
mod limits;
mod listen;
mod readiness;
mod mesh;
mod notify;
mod event_order;
mod params;
pub mod run;
mod session;
mod signals;
mod signature;
mod status;
pub mod strict;
pub mod telemetry;
mod tls;
mod trace;
