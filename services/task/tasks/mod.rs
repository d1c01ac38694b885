//! What the service does by itself.

mod maintenance;
mod old_content;
mod timers;

pub(super) use old_content::WaitingForSpace;

use std::pin::Pin;

pub(super) type TaskWork = Pin<Box<dyn Future<Output = ()> + Send>>;
