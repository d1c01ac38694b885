//! The private routes of the manager, as calls that may be repeated.

mod api;
mod connection;
mod error;
mod manager_url;
mod retry;
mod token;

pub(crate) use api::ManagerApi;
pub(crate) use error::{ManagerError, Verdict};
pub use manager_url::ManagerUrl;
pub(crate) use retry::Retry;
pub use token::{RunnerToken, TokenRefused};
