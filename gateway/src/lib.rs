//! aund: the server that agents connect to. The gateway terminates authenticated WebSocket connections, answers HTTP beside
//! them, and hands every call to the service of its namespace.

mod accounts;
mod address_limits;
pub mod admin;
mod admission;
pub mod config;
mod connection;
mod delivery;
pub mod federation;
pub mod frame;
mod gateway;
mod health;
mod http;
mod http_body;
mod incoming;
mod listen;
mod local_routes;
pub mod mesh;
pub mod run;
mod session;
mod shared_limits;
pub mod signals;
pub mod telemetry;
mod tls_verifier;
mod trace;
