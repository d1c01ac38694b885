//! What is read: pages of an inbox, cursors, recalls, read states and thoughts.

mod ack;
mod history;
mod pages;
pub(in crate::message) mod peer;
mod peers;
mod pull;
mod read_state;
mod recall;
mod thoughts;
mod v2_pull;
