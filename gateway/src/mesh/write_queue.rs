//! What waits to be written to one mesh link: bounded in bytes, and what is ready at one moment shares a frame.

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// What may wait to be written to one link.
pub(super) const QUEUE_BYTES: usize = 64 << 20;
/// A frame of this size is complete; the next item begins another. About one TLS record.
const FRAME_FULL: usize = 15 << 10;
const FRAME_TAIL: &str = "]}";

/// The write queue of a link, shared by everybody who writes to it.
#[derive(Clone)]
pub(super) struct MeshWriteQueue(Arc<WriteQueueInner>);

struct WriteQueueInner {
    /// How a frame of items begins.
    head: &'static str,
    frames: Mutex<QueuedMeshFrames>,
    /// Changed under the lock of the frames only; read without it.
    bytes: AtomicUsize,
    /// Whether there may be something to write.
    ready: AtomicBool,
    /// Whether the socket's task is running, and checks `ready` by itself before it sleeps.
    awake: AtomicBool,
    waker: AtomicWaker,
}

#[derive(Default)]
struct QueuedMeshFrames {
    complete: VecDeque<Utf8Bytes>,
    /// The frame that items are still added to; empty if there is none.
    growing: String,
    /// The size of the last complete frame, which is reserved for the next.
    last_size: usize,
}

impl MeshWriteQueue {
    pub fn new(head: &'static str) -> MeshWriteQueue {
        MeshWriteQueue(Arc::new(WriteQueueInner {
            head,
            frames: Mutex::default(),
            bytes: AtomicUsize::new(0),
            ready: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }))
    }

    pub fn has_space(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) <= QUEUE_BYTES
    }

    /// Adds an item to the frame that is still growing.
    pub fn add_item(&self, write: impl FnOnce(&mut String)) {
        let mut frames = self.0.frames.lock();
        let before = frames.growing.len();
        if before == 0 {
            frames.growing = String::with_capacity(frames.last_size);
            frames.growing.push_str(self.0.head);
        } else {
            frames.growing.push(',');
        }
        write(&mut frames.growing);
        self.0.bytes.fetch_add(frames.growing.len() - before, Ordering::Relaxed);
        if frames.growing.len() >= FRAME_FULL {
            self.complete_frame(&mut frames);
        }
        drop(frames);
        self.wake();
    }

    /// Adds a frame of its own, after every item that was added before.
    pub fn add_frame(&self, frame: &'static str) {
        self.add_text(Utf8Bytes::from_static(frame));
    }

    pub fn add_text(&self, frame: Utf8Bytes) {
        let mut frames = self.0.frames.lock();
        self.complete_frame(&mut frames);
        self.0.bytes.fetch_add(frame.len(), Ordering::Relaxed);
        frames.complete.push_back(frame);
        drop(frames);
        self.wake();
    }

    /// The next frame to write.
    pub fn take_frame(&self) -> Option<Utf8Bytes> {
        let mut frames = self.0.frames.lock();
        if frames.complete.is_empty() {
            self.complete_frame(&mut frames);
        }
        let Some(frame) = frames.complete.pop_front() else {
            self.0.ready.store(false, Ordering::SeqCst);
            return None;
        };
        self.0.bytes.fetch_sub(frame.len(), Ordering::Relaxed);
        Some(frame)
    }

    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::SeqCst)
    }

    /// Returns when there is something to write.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            if self.is_ready() {
                return Poll::Ready(());
            }
            self.0.waker.register(cx.waker());
            // Checked again after the waker is registered: what was added in between woke nobody.
            if self.is_ready() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Runs `work` in the socket's own task. That task calls `ready` afterwards, so whoever adds something meanwhile need
    /// not wake it.
    pub fn while_awake<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.awake.store(true, Ordering::SeqCst);
        let done = work();
        self.0.awake.store(false, Ordering::SeqCst);
        done
    }

    /// Makes the socket's task check the queue again. No wake-up is lost: `ready` is set before `awake` is read, and the
    /// task clears `awake` before it reads `ready`. All four are sequentially consistent, so either this side sees `awake`
    /// cleared and wakes the task, or the task sees `ready` set.
    pub fn wake(&self) {
        if !self.0.ready.swap(true, Ordering::SeqCst) && !self.0.awake.load(Ordering::SeqCst) {
            self.0.waker.wake();
        }
    }

    fn complete_frame(&self, frames: &mut QueuedMeshFrames) {
        if frames.growing.is_empty() {
            return;
        }
        frames.growing.push_str(FRAME_TAIL);
        self.0.bytes.fetch_add(FRAME_TAIL.len(), Ordering::Relaxed);
        frames.last_size = frames.growing.len();
        let frame = std::mem::take(&mut frames.growing);
        frames.complete.push_back(frame.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(queue: &MeshWriteQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.take_frame()).map(|frame| frame.to_string()).collect()
    }

    #[test]
    fn items_share_a_frame_and_nothing_overtakes() {
        let queue = MeshWriteQueue::new("{\"n\":[");
        queue.add_item(|out| out.push('1'));
        queue.add_item(|out| out.push('2'));
        queue.add_frame("frame");
        queue.add_item(|out| out.push('3'));
        assert_eq!(take_all(&queue), ["{\"n\":[1,2]}", "frame", "{\"n\":[3]}"]);
        assert!(!queue.is_ready());
    }

    #[test]
    fn a_frame_and_the_queue_are_bounded_in_bytes() {
        let queue = MeshWriteQueue::new("{\"n\":[");
        let large = "7".repeat(FRAME_FULL);
        queue.add_item(|out| out.push_str(&large));
        queue.add_item(|out| out.push('8'));
        assert_eq!(take_all(&queue).iter().map(String::len).collect::<Vec<_>>(), [FRAME_FULL + 8, 9]);
        while queue.has_space() {
            queue.add_item(|out| out.push_str(&large));
        }
        take_all(&queue);
        assert_eq!(queue.0.bytes.load(Ordering::Relaxed), 0);
    }
}
