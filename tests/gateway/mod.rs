//! The gateway: connections, sessions, limits and signatures, JSON-RPC over WebSocket and HTTP, and the links between processes.

mod capabilities;
mod connect;
mod drain;
pub(crate) mod free_space;
mod jsonrpc;
mod limits;
pub(crate) mod mesh;
mod notify;
mod rpc_http;
mod sessions;
mod signature;
mod store_down;
mod ways_in;
