//! Somebody who waits for one answer.

use super::link::Link;
use services::kernel::{Answer, RpcError, unavailable};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use tokio::sync::oneshot;

/// A call under way. Whoever stops waiting takes its place in the table along.
pub(super) struct Waiting {
    link: Arc<Link>,
    /// Until it is answered.
    id: Option<u64>,
    receiver: oneshot::Receiver<Result<Answer, RpcError>>,
}

impl Waiting {
    pub fn new(
        link: Arc<Link>,
        id: Option<u64>,
        receiver: oneshot::Receiver<Result<Answer, RpcError>>,
    ) -> Waiting {
        Waiting { link, id, receiver }
    }
}

impl Future for Waiting {
    type Output = Result<Answer, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let answer = task::ready!(Pin::new(&mut self.receiver).poll(cx));
        self.id = None;
        Poll::Ready(answer.unwrap_or_else(|_| Err(unavailable(self.link.namespace))))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.link.take([id].into_iter());
        }
    }
}
