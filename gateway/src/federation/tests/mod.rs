//! Hello by itself, and the dialling side against a real listener: TLS, WebSocket and hello are real, and what the other
//! gateway says is up to the test.

mod ca;
mod forward;
mod hello;
mod link;
mod reach;
pub mod rig;
pub mod there;
mod time;
