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
mod gap;
mod http;
mod judge;
mod limits;
mod listen;
mod meet;
mod mesh;
mod notify;
mod order;
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
