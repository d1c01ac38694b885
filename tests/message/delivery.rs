//! What is sent: who gets it, where, when, and in which form.

mod events;
mod fanout;
mod never_connected;
mod notify;
mod payloads;
mod pull_notifications;
mod query_online;
mod queue;
mod send;
mod sizes;
mod trace;
mod volatile;
