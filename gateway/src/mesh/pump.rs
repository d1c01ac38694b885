//! One socket of the mesh: reads what is there, writes what waits, and flushes once for all of it.

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// What may wait to be written to one link.
pub(super) const QUEUE_BYTES: usize = 64 << 20;
/// How many ready frames are taken before one flush.
const READY: usize = 64;
/// Each side pings so often, and takes the other for gone after so many pings without a sound.
const PING_EVERY: Duration = Duration::from_secs(2);
const SILENT_PINGS: u32 = 3;
const WRITE_PATIENCE: Duration = Duration::from_secs(6);

/// Frames carry what the door took and an envelope around it.
const FRAME_BYTES: usize = 4 << 20;

pub(super) fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(64 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(QUEUE_BYTES + FRAME_BYTES)
        .max_message_size(Some(FRAME_BYTES))
        .max_frame_size(Some(FRAME_BYTES))
}

/// The way out: bounded in bytes, shared by whoever has something to say.
#[derive(Clone)]
pub(super) struct Post {
    frames: mpsc::UnboundedSender<Utf8Bytes>,
    waiting: Arc<AtomicUsize>,
}

pub(super) struct Posted {
    frames: mpsc::UnboundedReceiver<Utf8Bytes>,
    waiting: Arc<AtomicUsize>,
}

pub(super) fn post() -> (Post, Posted) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Post { frames: sender, waiting: waiting.clone() }, Posted { frames: receiver, waiting })
}

impl Post {
    /// Whether there is room; a frame is never taken in part.
    pub fn push(&self, frame: impl Into<Utf8Bytes>) -> bool {
        let frame = frame.into();
        let bytes = frame.len();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) > QUEUE_BYTES {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.frames.send(frame).is_ok()
    }
}

/// What the owner of a socket does with what it hears.
pub(super) trait Ear {
    /// A frame; `Err` ends the link with this reason.
    fn hear(&mut self, text: &str) -> Result<(), &'static str>;

    /// Whether more may be read; if not, it is asked again whenever something was written.
    fn may_hear(&self) -> bool {
        true
    }

    /// Asked after everything waiting was written: whether the link has served its time.
    fn is_done(&self) -> bool {
        false
    }
}

/// Runs the link until it ends, and says why it did.
pub(super) async fn pump<S>(
    mut socket: WebSocketStream<S>,
    mut posted: Posted,
    ear: &mut impl Ear,
) -> &'static str
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut batch = Vec::with_capacity(READY);
    let mut clock = interval(PING_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silence = 0;
    loop {
        tokio::select! {
            biased;
            count = posted.frames.recv_many(&mut batch, READY) => {
                if count == 0 {
                    break close(socket, "nobody is left to speak").await;
                }
                let bytes: usize = batch.iter().map(|frame| frame.len()).sum();
                let written = timeout(WRITE_PATIENCE, write(&mut socket, &mut batch)).await;
                posted.waiting.fetch_sub(bytes, Ordering::Relaxed);
                match written {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => break "the wire broke",
                    Err(_) => break "nothing could be written",
                }
            }
            message = socket.next(), if ear.may_hear() => {
                silence = 0;
                if let Err(reason) = take_all(&mut socket, message, ear) {
                    break reason;
                }
            }
            _ = clock.tick() => {
                silence += 1;
                // A socket that is not read on purpose is not silent.
                if silence > SILENT_PINGS && ear.may_hear() {
                    break "the other side fell silent";
                }
                if timeout(WRITE_PATIENCE, socket.send(Message::Ping(Default::default()))).await.is_err() {
                    break "nothing could be written";
                }
            }
        }
        if ear.is_done() {
            break close(socket, "done").await;
        }
    }
}

type Received = Option<Result<Message, tokio_tungstenite::tungstenite::Error>>;

/// Takes one message, and then what else is there already.
fn take_all<S>(
    socket: &mut WebSocketStream<S>,
    first: Received,
    ear: &mut impl Ear,
) -> Result<(), &'static str>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut message = first;
    for taken in 1.. {
        match message {
            Some(Ok(Message::Text(text))) => ear.hear(&text)?,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err("the other side left"),
            Some(Ok(_)) => return Err("the other side does not speak our language"),
            Some(Err(_)) => return Err("the wire broke"),
        }
        if taken == READY || !ear.may_hear() {
            break;
        }
        match socket.next().now_or_never() {
            Some(next) => message = next,
            None => break,
        }
    }
    Ok(())
}

async fn write<S>(
    socket: &mut WebSocketStream<S>,
    batch: &mut Vec<Utf8Bytes>,
) -> Result<(), tokio_tungstenite::tungstenite::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for frame in batch.drain(..) {
        socket.feed(Message::Text(frame)).await?;
    }
    socket.flush().await
}

async fn close<S>(mut socket: WebSocketStream<S>, reason: &'static str) -> &'static str
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _ = timeout(WRITE_PATIENCE, socket.close(None)).await;
    reason
}
