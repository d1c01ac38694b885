//! Tells the one task that owns a socket that it has to give it up.

use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

#[derive(Default)]
pub struct EvictionSignal {
    evicted: AtomicBool,
    waker: AtomicWaker,
}

impl EvictionSignal {
    pub fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
    }

    /// Only one task may wait.
    pub fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_evicted() {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        // Looked at again after the waker is registered, or a signal in between would wake nobody.
        if self.is_evicted() { Poll::Ready(()) } else { Poll::Pending }
    }

    pub async fn evicted(&self) {
        poll_fn(|cx| self.poll_evicted(cx)).await;
    }
}
