//! What the service does by itself.

pub(super) mod indexing;
pub(super) mod ingest;
mod maintenance;
pub(super) mod query_stats;

use std::pin::Pin;

pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
