//! What the service does by itself.

mod maintenance;
mod timers;

use std::pin::Pin;

pub(super) type TaskWork = Pin<Box<dyn Future<Output = ()> + Send>>;
