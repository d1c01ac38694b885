//! What waits to be written to one link: bounded in bytes, and what comes together travels together.

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
/// A frame that has grown so large is closed; the next item begins another. About one record of TLS.
const FULL: usize = 15 << 10;
const TAIL: &str = "]}";

/// The way out, shared by whoever has something to say.
#[derive(Clone)]
pub(super) struct Post(Arc<Shared>);

struct Shared {
    /// How the frames begin that items are gathered in.
    head: &'static str,
    queue: Mutex<Queue>,
    /// Changed under the queue's lock only; looked at without it.
    bytes: AtomicUsize,
    waiting: AtomicBool,
    /// Whether the socket's task is at work, and looks by itself before it sleeps.
    awake: AtomicBool,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    closed: VecDeque<Utf8Bytes>,
    /// The frame that still grows; empty if there is none.
    open: String,
    /// As long as the last one was: space for the next.
    usual: usize,
}

impl Post {
    pub fn new(head: &'static str) -> Post {
        Post(Arc::new(Shared {
            head,
            queue: Mutex::default(),
            bytes: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }))
    }

    pub fn has_space(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) <= QUEUE_BYTES
    }

    /// Adds an item to the frame that is next to go.
    pub fn add(&self, write: impl FnOnce(&mut String)) {
        let mut queue = self.0.queue.lock();
        let before = queue.open.len();
        if before == 0 {
            queue.open = String::with_capacity(queue.usual);
            queue.open.push_str(self.0.head);
        } else {
            queue.open.push(',');
        }
        write(&mut queue.open);
        self.0.bytes.fetch_add(queue.open.len() - before, Ordering::Relaxed);
        if queue.open.len() >= FULL {
            self.close(&mut queue);
        }
        drop(queue);
        self.wake();
    }

    /// A frame of its own, after everything that was added before.
    pub fn say(&self, frame: &'static str) {
        let mut queue = self.0.queue.lock();
        self.close(&mut queue);
        self.0.bytes.fetch_add(frame.len(), Ordering::Relaxed);
        queue.closed.push_back(Utf8Bytes::from_static(frame));
        drop(queue);
        self.wake();
    }

    /// The next frame to write.
    pub fn take(&self) -> Option<Utf8Bytes> {
        let mut queue = self.0.queue.lock();
        if queue.closed.is_empty() {
            self.close(&mut queue);
        }
        let Some(frame) = queue.closed.pop_front() else {
            self.0.waiting.store(false, Ordering::SeqCst);
            return None;
        };
        self.0.bytes.fetch_sub(frame.len(), Ordering::Relaxed);
        Some(frame)
    }

    pub fn is_waiting(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst)
    }

    /// Returns when there is something to take.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            if self.is_waiting() {
                return Poll::Ready(());
            }
            self.0.waker.register(cx.waker());
            // Looked at again after asking to be woken, or what came in between would wait for the next wake.
            if self.is_waiting() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Does something in the socket's own task, which looks afterwards what came of it and need not be woken.
    pub fn while_awake<T>(&self, something: impl FnOnce() -> T) -> T {
        self.0.awake.store(true, Ordering::SeqCst);
        let done = something();
        self.0.awake.store(false, Ordering::SeqCst);
        done
    }

    /// Has the socket's task look again. Whoever finds it awake has said so before it looks: hence one order for all.
    pub fn wake(&self) {
        if !self.0.waiting.swap(true, Ordering::SeqCst) && !self.0.awake.load(Ordering::SeqCst) {
            self.0.waker.wake();
        }
    }

    fn close(&self, queue: &mut Queue) {
        if queue.open.is_empty() {
            return;
        }
        queue.open.push_str(TAIL);
        self.0.bytes.fetch_add(TAIL.len(), Ordering::Relaxed);
        queue.usual = queue.open.len();
        let frame = std::mem::take(&mut queue.open);
        queue.closed.push_back(frame.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(post: &Post) -> Vec<String> {
        std::iter::from_fn(|| post.take()).map(|frame| frame.to_string()).collect()
    }

    #[test]
    fn what_comes_together_is_one_frame_and_nothing_overtakes() {
        let post = Post::new("{\"n\":[");
        post.add(|out| out.push('1'));
        post.add(|out| out.push('2'));
        post.say("word");
        post.add(|out| out.push('3'));
        assert_eq!(taken(&post), ["{\"n\":[1,2]}", "word", "{\"n\":[3]}"]);
        assert!(!post.is_waiting());
    }

    #[test]
    fn a_frame_ends_when_it_is_full_and_the_queue_when_it_is() {
        let post = Post::new("{\"n\":[");
        let large = "7".repeat(FULL);
        post.add(|out| out.push_str(&large));
        post.add(|out| out.push('8'));
        assert_eq!(taken(&post).iter().map(String::len).collect::<Vec<_>>(), [FULL + 8, 9]);
        while post.has_space() {
            post.add(|out| out.push_str(&large));
        }
        taken(&post);
        assert_eq!(post.0.bytes.load(Ordering::Relaxed), 0);
    }
}
