//! The service alone, on either engine, through its methods and routes.

mod health;
mod leases;
mod listing;
mod profiles;
mod session_events;
mod session_storage;
mod sessions;
mod support;
mod tokens;
