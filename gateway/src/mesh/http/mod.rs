//! HTTP between the processes of a server: HTTP/2 on the mesh port, chosen by ALPN, beside the WebSocket of the calls.
//!
//! Streams, flow control and cancellation are HTTP/2's own. The windows are so that every stream can fill its own without
//! the connection running dry: a client that reads slowly holds up nobody but itself. Where one connection has as many streams as it may
//! have, another one is dialled.

mod link;
mod pool;
mod remote;
mod serve;

pub(super) use remote::RemoteHttp;
pub(super) use serve::serve_http;

use std::time::Duration;
use tokio_util::task::TaskTracker;

pub(super) const ALPN: &[u8] = b"h2";

/// What may be on its way in one stream, and how many streams one connection has at a time.
const STREAM_WINDOW: u32 = 128 << 10;
/// What may be on its way to the reader of a response without an end: there may be thousands of them, and they read events.
const READER_WINDOW: u32 = 32 << 10;
const STREAMS: u32 = 512;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS;
const SEND_BUFFER: usize = STREAM_WINDOW as usize;
/// Each side pings this often, and gives the connection up without an answer.
const PING_EVERY: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(6);

/// Runs the tasks of a connection on a tracker: no task is unowned.
#[derive(Clone)]
struct TrackedExecutor(TaskTracker);

impl<F> hyper::rt::Executor<F> for TrackedExecutor
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}
