//! The frames that wait to be written to one connection, bounded in bytes.

use super::CloseReason;
use crate::telemetry::Metrics;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// What all outboxes of the process hold together.
pub struct OutboxBudget {
    used: AtomicUsize,
    pub per_connection: usize,
    pub total: usize,
    pub metrics: Arc<Metrics>,
}

impl OutboxBudget {
    pub fn new(per_connection: usize, total: usize, metrics: Arc<Metrics>) -> OutboxBudget {
        OutboxBudget { used: AtomicUsize::new(0), per_connection, total, metrics }
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

pub struct ConnectionOutbox {
    state: Mutex<QueuedFrames>,
    waiting: AtomicBool,
    waker: AtomicWaker,
    budget: Arc<OutboxBudget>,
}

#[derive(Default)]
struct QueuedFrames {
    frames: VecDeque<Utf8Bytes>,
    bytes: usize,
    /// How many there were last time: the next queue is allocated for as many.
    usual: u16,
    close_reason: Option<CloseReason>,
}

/// Something for the connection's task to do.
pub enum OutboxItem {
    Frame(Utf8Bytes),
    Frames(VecDeque<Utf8Bytes>),
    CloseReason(CloseReason),
}

/// The most bytes that are handed over at once; the rest stays counted.
const AT_ONCE_BYTES: usize = 16 << 10;

impl ConnectionOutbox {
    pub fn new(budget: Arc<OutboxBudget>) -> ConnectionOutbox {
        ConnectionOutbox {
            state: Mutex::default(),
            waiting: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            budget,
        }
    }

    /// Queues a frame. When it does not fit, the reader is too slow: the connection is closed, and the client reconnects and
    /// pulls what it missed.
    pub fn push(&self, frame: Utf8Bytes) {
        let mut state = self.state.lock();
        if state.close_reason.is_some() {
            return;
        }
        let size = frame.len();
        let full =
            state.bytes + size > self.budget.per_connection || self.budget.used() + size > self.budget.total;
        if full {
            self.budget.metrics.full_outboxes.inc();
            self.drop_frames(&mut state);
            state.close_reason = Some(CloseReason::plain(1013, "slow reader: too much waits to be written"));
        } else {
            state.bytes += size;
            self.budget.used.fetch_add(size, Ordering::Relaxed);
            if state.frames.is_empty() {
                let usual = usize::from(state.usual);
                state.frames.reserve(usual);
            }
            state.frames.push_back(frame);
        }
        drop(state);
        self.wake();
    }

    /// Asks the connection's task to close. The first close reason counts.
    pub fn close(&self, close_reason: CloseReason) {
        self.state.lock().close_reason.get_or_insert(close_reason);
        self.wake();
    }

    /// The next things to do: frames first, several of them at once, then the close reason.
    pub fn take(&self) -> Option<OutboxItem> {
        if !self.is_waiting() {
            return None;
        }
        let mut state = self.state.lock();
        if state.frames.len() < 2 || state.bytes > AT_ONCE_BYTES {
            return self.next(&mut state);
        }
        self.budget.used.fetch_sub(state.bytes, Ordering::Relaxed);
        state.bytes = 0;
        state.usual = u16::try_from(state.frames.len()).unwrap_or_default().min(64);
        self.waiting.store(state.close_reason.is_some(), Ordering::Release);
        // An idle connection keeps no space for what it once received.
        Some(OutboxItem::Frames(std::mem::take(&mut state.frames)))
    }

    #[cfg(test)]
    pub fn pop(&self) -> Option<OutboxItem> {
        if self.is_waiting() { self.next(&mut self.state.lock()) } else { None }
    }

    fn next(&self, state: &mut QueuedFrames) -> Option<OutboxItem> {
        if let Some(frame) = state.frames.pop_front() {
            state.bytes -= frame.len();
            self.budget.used.fetch_sub(frame.len(), Ordering::Relaxed);
            if state.frames.is_empty() {
                state.frames = VecDeque::new();
                state.usual = 0;
                self.waiting.store(state.close_reason.is_some(), Ordering::Release);
            }
            return Some(OutboxItem::Frame(frame));
        }
        self.waiting.store(false, Ordering::Release);
        state.close_reason.clone().map(OutboxItem::CloseReason)
    }

    /// Whether there is something to take.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// The same; and if there is nothing, the task is woken when there is.
    pub fn poll_waiting(&self, cx: &mut Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.is_waiting()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.budget.metrics
    }

    /// Wakes the connection's task, although nothing waits: it may read again.
    pub fn wake_reader(&self) {
        self.waker.wake();
    }

    /// Only the first to say that something waits has to wake the task.
    fn wake(&self) {
        if !self.waiting.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    fn drop_frames(&self, state: &mut QueuedFrames) {
        self.budget.used.fetch_sub(state.bytes, Ordering::Relaxed);
        state.bytes = 0;
        state.frames.clear();
    }
}

impl Drop for ConnectionOutbox {
    fn drop(&mut self) {
        let bytes = self.state.get_mut().bytes;
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(per_connection: usize, total: usize) -> (ConnectionOutbox, Arc<OutboxBudget>) {
        let budget = Arc::new(OutboxBudget::new(per_connection, total, Arc::default()));
        (ConnectionOutbox::new(budget.clone()), budget)
    }

    #[test]
    fn frames_come_out_in_order_and_give_back_their_bytes() {
        let (outbox, budget) = outbox(100, 1000);
        outbox.push("one".into());
        outbox.push("two".into());
        assert_eq!(budget.used(), 6);
        for expected in ["one", "two"] {
            assert!(matches!(outbox.pop(), Some(OutboxItem::Frame(frame)) if frame == expected));
        }
        assert!(outbox.pop().is_none());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn several_frames_are_taken_at_once_and_the_rest_stays_counted() {
        let (outbox, budget) = outbox(1 << 20, 1 << 20);
        for frame in ["one", "two", "three"] {
            outbox.push(frame.into());
        }
        assert!(
            matches!(outbox.take(), Some(OutboxItem::Frames(frames)) if frames == ["one", "two", "three"])
        );
        assert!(outbox.take().is_none());
        assert_eq!(budget.used(), 0);
        let large = "x".repeat(AT_ONCE_BYTES);
        outbox.push(large.as_str().into());
        outbox.push("small".into());
        outbox.close(CloseReason::plain(1012, "restart"));
        assert!(matches!(outbox.take(), Some(OutboxItem::Frame(frame)) if frame == large));
        assert_eq!(budget.used(), 5);
        assert!(matches!(outbox.take(), Some(OutboxItem::Frame(frame)) if frame == "small"));
        assert!(matches!(outbox.take(), Some(OutboxItem::CloseReason(_))));
    }

    #[test]
    fn a_slow_reader_is_closed_and_its_outbox_holds_nothing() {
        let (outbox, budget) = outbox(10, 1000);
        outbox.push("12345678".into());
        outbox.push("12345678".into());
        assert!(
            matches!(outbox.pop(), Some(OutboxItem::CloseReason(close_reason)) if close_reason.code == 1013)
        );
        outbox.push("x".into());
        assert!(outbox.pop().is_none());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn all_outboxes_share_a_budget() {
        let budget = Arc::new(OutboxBudget::new(100, 10, Arc::default()));
        let (first, second) = (ConnectionOutbox::new(budget.clone()), ConnectionOutbox::new(budget.clone()));
        first.push("12345678".into());
        second.push("12345678".into());
        assert!(matches!(second.pop(), Some(OutboxItem::CloseReason(_))));
        drop(first);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_first_close_reason_counts_and_comes_after_the_frames() {
        let (outbox, _) = outbox(100, 100);
        outbox.push("last frame".into());
        outbox.close(CloseReason::plain(4009, "replaced"));
        outbox.close(CloseReason::plain(1012, "restart"));
        assert!(matches!(outbox.pop(), Some(OutboxItem::Frame(_))));
        assert!(
            matches!(outbox.pop(), Some(OutboxItem::CloseReason(close_reason)) if close_reason.code == 4009)
        );
    }
}
