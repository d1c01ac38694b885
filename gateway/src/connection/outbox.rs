//! The frames that wait to be written to one connection, bounded in bytes.

use super::CloseReason;
use super::outbox_budget::{AgentOutboxes, OutboxBudget};
use crate::telemetry::Metrics;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub struct ConnectionOutbox {
    state: Mutex<QueuedFrames>,
    waiting: AtomicBool,
    waker: AtomicWaker,
    budget: Arc<OutboxBudget>,
}

#[derive(Default)]
struct QueuedFrames {
    frames: VecDeque<Utf8Bytes>,
    /// Of the frames.
    bytes: usize,
    /// Of what will become a frame, and is counted until then.
    reserved: usize,
    /// The outboxes that it is counted with, once the connection has a session.
    agent: Option<Arc<AgentOutboxes>>,
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

    /// Counts it with the other outboxes of an agent from now on.
    pub fn join(&self, agent: &Arc<AgentOutboxes>) {
        let mut state = self.state.lock();
        if state.agent.is_some() {
            return;
        }
        let held = state.held();
        self.budget.subtract(None, held);
        let _ = self.budget.add(Some(agent), held);
        state.agent = Some(agent.clone());
    }

    /// The outboxes that it is counted with.
    pub fn agent(&self) -> Option<Arc<AgentOutboxes>> {
        self.state.lock().agent.clone()
    }

    /// How many bytes are counted for it.
    pub fn held(&self) -> usize {
        self.state.lock().held()
    }

    /// Queues a frame. When it does not fit, the reader is too slow: the connection is closed, and the client reconnects and
    /// pulls what it missed.
    pub fn push(&self, frame: Utf8Bytes) {
        let mut state = self.state.lock();
        let size = frame.len();
        if !self.fits(&mut state, size) {
            return;
        }
        state.bytes += size;
        if state.frames.is_empty() {
            let usual = usize::from(state.usual);
            state.frames.reserve(usual);
        }
        state.frames.push_back(frame);
        let overflow = self.budget.add(state.agent.as_ref(), size);
        drop(state);
        self.wake();
        if let Some(overflow) = overflow {
            self.budget.relieve(&overflow);
        }
    }

    /// Counts bytes that will be in a frame and are not yet, as if they waited to be written. Says whether they fit; if they
    /// do not, the connection is closed.
    pub fn reserve(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        if !self.fits(&mut state, bytes) {
            return false;
        }
        state.reserved += bytes;
        let overflow = self.budget.add(state.agent.as_ref(), bytes);
        drop(state);
        if let Some(overflow) = overflow {
            self.budget.relieve(&overflow);
        }
        true
    }

    /// Gives back what was reserved.
    pub fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.reserved -= bytes;
        self.budget.subtract(state.agent.as_ref(), bytes);
    }

    /// Closes it because too much waits for it, and drops what waits: a socket that is not writable may take long to close.
    pub fn close_full(&self, reason: &str) {
        self.drop_all(&mut self.state.lock(), reason);
        self.wake();
    }

    /// Whether so many bytes may wait here: not in a connection that closes. One for which they are too many is closed.
    fn fits(&self, state: &mut QueuedFrames, size: usize) -> bool {
        if state.close_reason.is_some() {
            return false;
        }
        let fits = state.held() + size <= self.budget.per_connection;
        if !fits {
            self.drop_all(state, "slow reader: too much data waits for this connection");
            self.wake();
        }
        fits
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
        let bytes = std::mem::take(&mut state.bytes);
        self.budget.subtract(state.agent.as_ref(), bytes);
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
            self.budget.subtract(state.agent.as_ref(), frame.len());
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

    fn drop_all(&self, state: &mut QueuedFrames, reason: &str) {
        self.budget.subtract(state.agent.as_ref(), std::mem::take(&mut state.bytes));
        state.frames = VecDeque::new();
        if state.close_reason.is_none() {
            self.budget.metrics.full_outboxes.inc();
            state.close_reason = Some(CloseReason::plain(1013, reason));
        }
    }
}

impl QueuedFrames {
    fn held(&self) -> usize {
        self.bytes + self.reserved
    }
}

impl Drop for ConnectionOutbox {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.budget.subtract(state.agent.as_ref(), state.held());
    }
}

#[cfg(test)]
mod tests;
