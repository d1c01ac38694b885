//! Why the store did not write something. An agent is told the same of all of them: nothing was changed, try again.

use kernel::{BatchError, is_disk_full};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Queue(#[from] BatchError),
    #[error("the store is behind: {0} bytes already wait to be indexed")]
    Unindexed(usize),
    /// One commit, and every write that was in it.
    #[error("the commit failed: {0}")]
    Commit(Arc<StoreError>),
    #[error("the commit conflicted with other commits in each of {0} attempts")]
    OutOfTries(usize),
    #[error("PostgreSQL did not commit within {0} s")]
    Deadline(u64),
    #[error("the id made for the notice of a recall is already in use")]
    NoticeIdInUse,
    #[error("a write was left out of its commit")]
    LeftOut,
    #[error("a write was answered with the outcome of another kind of write")]
    OtherKind,
}

impl StoreError {
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Sql(error) => is_disk_full(error),
            StoreError::Queue(BatchError::Failed(error)) => is_disk_full(error),
            StoreError::Commit(error) => error.is_disk_full(),
            _ => false,
        }
    }
}

/// Of a commit that gives the reason for each of its writes.
impl From<BatchError<Arc<StoreError>>> for StoreError {
    fn from(error: BatchError<Arc<StoreError>>) -> StoreError {
        match error {
            BatchError::Busy(bytes) => StoreError::Queue(BatchError::Busy(bytes)),
            BatchError::Failed(error) => StoreError::Commit(error),
            BatchError::Closed => StoreError::Queue(BatchError::Closed),
        }
    }
}
