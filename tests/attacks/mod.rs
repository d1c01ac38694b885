//! Attacks that worked once: each test measures the harm, and fails on a server without the defence.

mod accounts;
mod addresses;
mod cpu;
mod ephemeral;
mod federation;
mod growth;
mod http;
mod manifests;
mod mesh;
mod outbox;
mod queues;
mod revoked;
mod sockets;
mod terminals;
mod trust;
