//! One WebSocket of the mesh: reads what has arrived, writes what waits, and flushes once for all of it.

use super::write_queue::{MeshWriteQueue, QUEUE_BYTES};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How many frames are read, or written before one flush, in one go.
const FRAMES_AT_ONCE: usize = 64;
/// How often each side looks whether it received anything since the last time. If not it pings, and after this many times it closes
/// the link. The first time says nothing yet, so a process that has no time to answer has three of these, six seconds.
const CHECK_EVERY: Duration = Duration::from_secs(2);
const SILENT_CHECKS: u32 = 4;
const WRITE_TIMEOUT: Duration = Duration::from_secs(6);

/// A frame carries what the gateway accepted from a client, and an envelope around it: the body of a route has at most 4 MiB.
const FRAME_BYTES: usize = 5 << 20;
const _: () = assert!(FRAME_BYTES >= proto_schemas::MOST_BODY_BYTES + (512 << 10));
/// The largest answer: its frame may have begun with others, and has an envelope.
pub(super) const ANSWER_BYTES: usize = FRAME_BYTES - (64 << 10);
/// TLS reads 4 KiB at a time; this is how much one system call brings.
const READ_AHEAD: usize = 64 << 10;

/// What TLS runs over.
pub(super) type BufferedTcp = BufReader<TcpStream>;

pub(super) fn buffered(socket: TcpStream) -> std::io::Result<BufferedTcp> {
    socket.set_nodelay(true)?;
    Ok(BufReader::with_capacity(READ_AHEAD, socket))
}

pub(super) fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        // Cleared before every read, so no larger than a TLS record.
        .read_buffer_size(16 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(QUEUE_BYTES + FRAME_BYTES)
        .max_message_size(Some(FRAME_BYTES))
        .max_frame_size(Some(FRAME_BYTES))
}

/// What the owner of a socket does with the frames it receives.
pub(super) trait FrameHandler {
    /// A frame was received; `Err` ends the link for this reason.
    fn on_frame(&mut self, text: &str) -> Result<(), &'static str>;

    /// Whether more may be read; if not, it is asked again whenever something was written.
    fn may_read(&self) -> bool {
        true
    }

    /// Whether other tasks are at work that may add something to the queue in the same moment.
    fn expects_more(&self) -> bool;

    /// Whether the link may close once everything in the queue is written.
    fn is_finished(&self) -> bool {
        false
    }
}

/// Runs the link until it ends, and returns why it did.
pub(super) async fn run_socket<S>(
    mut socket: WebSocketStream<S>,
    queue: &MeshWriteQueue,
    handler: &mut impl FrameHandler,
) -> &'static str
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut clock = interval(CHECK_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent_checks = 0;
    loop {
        tokio::select! {
            biased;
            () = queue.ready() => {
                if handler.expects_more() {
                    // One scheduling round later their items share this flush. With nobody else at work nothing waits.
                    tokio::task::yield_now().await;
                }
                match timeout(WRITE_TIMEOUT, write(&mut socket, queue)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => break "the connection broke",
                    Err(_) => break "a write timed out",
                }
            }
            message = socket.next(), if handler.may_read() => {
                silent_checks = 0;
                if let Err(reason) = queue.while_awake(|| read_ready(&mut socket, message, handler)) {
                    break reason;
                }
            }
            _ = clock.tick() => {
                silent_checks += 1;
                // A socket that is not read on purpose is not silent.
                if silent_checks > SILENT_CHECKS && handler.may_read() {
                    break "the other side did not answer pings";
                }
                let ping = socket.send(Message::Ping(Default::default()));
                if silent_checks > 1 && timeout(WRITE_TIMEOUT, ping).await.is_err() {
                    break "a write timed out";
                }
            }
        }
        // In this order: an answer is added to the queue before its call stops to be in flight.
        if handler.is_finished() && !queue.is_ready() {
            break close(socket, "drained").await;
        }
    }
}

type MeshRead = Option<Result<Message, tokio_tungstenite::tungstenite::Error>>;

/// Handles one frame, and then those that have arrived already.
fn read_ready<S>(
    socket: &mut WebSocketStream<S>,
    first: MeshRead,
    handler: &mut impl FrameHandler,
) -> Result<(), &'static str>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut message = first;
    for handled in 1.. {
        match message {
            Some(Ok(Message::Text(text))) => handler.on_frame(&text)?,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err("the other side closed it"),
            Some(Ok(_)) => return Err("a received frame is not text"),
            Some(Err(_)) => return Err("the connection broke"),
        }
        if handled == FRAMES_AT_ONCE || !handler.may_read() {
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
    queue: &MeshWriteQueue,
) -> Result<(), tokio_tungstenite::tungstenite::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..FRAMES_AT_ONCE {
        let Some(frame) = queue.take_frame() else { break };
        socket.feed(Message::Text(frame)).await?;
    }
    socket.flush().await
}

async fn close<S>(mut socket: WebSocketStream<S>, reason: &'static str) -> &'static str
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _ = timeout(WRITE_TIMEOUT, socket.close(None)).await;
    reason
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_tungstenite::tungstenite::protocol::Role;

    /// Has answered everything before the first byte is written.
    struct FinishedHandler;

    impl FrameHandler for FinishedHandler {
        fn on_frame(&mut self, _: &str) -> Result<(), &'static str> {
            Ok(())
        }

        fn expects_more(&self) -> bool {
            false
        }

        fn is_finished(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_finished_link_writes_its_whole_queue_before_it_closes() {
        let (local, remote) = tokio::io::duplex(1 << 20);
        let local = WebSocketStream::from_raw_socket(local, Role::Server, Some(socket_config())).await;
        let mut remote = WebSocketStream::from_raw_socket(remote, Role::Client, Some(socket_config())).await;
        let queue = MeshWriteQueue::new("[");
        for _ in 0..3 * FRAMES_AT_ONCE {
            queue.add_frame("frame");
        }
        let read = async {
            let mut frames = 0;
            while let Some(Ok(Message::Text(_))) = remote.next().await {
                frames += 1;
            }
            let _ = remote.close(None).await;
            frames
        };
        let mut handler = FinishedHandler;
        let (reason, frames) = tokio::join!(run_socket(local, &queue, &mut handler), read);
        assert_eq!((reason, frames), ("drained", 3 * FRAMES_AT_ONCE));
    }
}
