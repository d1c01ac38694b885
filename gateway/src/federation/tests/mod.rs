//! Hello by itself, and the dialling side against a real listener: TLS, WebSocket and hello are real, and what the other
//! gateway answers is up to the test.

mod dial;
mod forward;
mod hello;
mod link;
pub mod remote_gateway;
mod schemas;
mod test_ca;
mod time;
pub mod two_domains;
