//! Hello by itself; the dialling side against a real listener: TLS, WebSocket and hello are real, and what the other
//! gateway answers is up to the test; and the accepting side, which gets its frames without a socket.

mod depth;
mod dial;
mod dispatch;
mod events;
mod forward;
mod hello;
mod inbound;
mod link;
mod new_domains;
mod revoked_links;
mod schemas;
mod status_answers;
pub mod support;
mod time;
