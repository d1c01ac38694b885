//! The private routes of the manager, as calls that may be repeated, and what they tell a runner.

mod api;
mod connection;
mod error;
mod lease;
mod manager_url;
mod retry;
mod signal;
mod token;

pub(crate) use api::{ATTACHMENT_BYTES, ManagerApi};
pub(crate) use error::{ErrorVerdict, ManagerError};
pub(crate) use lease::RunnerLease;
pub use manager_url::ManagerUrl;
pub(crate) use retry::CallRetry;
pub(crate) use signal::{RunNews, WorkOver, WorkSignal};
pub use token::{RunnerToken, TokenRefused};
