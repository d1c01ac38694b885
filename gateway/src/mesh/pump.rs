//! One socket of the mesh: reads what is there, writes what waits, and flushes once for all of it.

use super::post::{Post, QUEUE_BYTES};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How many ready frames are taken before one flush.
const READY: usize = 64;
/// Each side pings so often, and takes the other for gone after so many pings without a sound.
const PING_EVERY: Duration = Duration::from_secs(2);
const SILENT_PINGS: u32 = 3;
const WRITE_PATIENCE: Duration = Duration::from_secs(6);

/// Frames carry what the gateway took and an envelope around it.
const FRAME_BYTES: usize = 4 << 20;
/// TLS reads 4 KiB at a time; this is how much one system call brings.
const READ_AHEAD: usize = 64 << 10;

/// What TLS runs over.
pub(super) type Stream = BufReader<TcpStream>;

pub(super) fn stream(socket: TcpStream) -> std::io::Result<Stream> {
    socket.set_nodelay(true)?;
    Ok(BufReader::with_capacity(READ_AHEAD, socket))
}

pub(super) fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        // Cleared before every read, so no more than a record of TLS holds.
        .read_buffer_size(16 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(QUEUE_BYTES + FRAME_BYTES)
        .max_message_size(Some(FRAME_BYTES))
        .max_frame_size(Some(FRAME_BYTES))
}

/// What the owner of a socket does with what it hears.
pub(super) trait Ear {
    /// A frame; `Err` ends the link with this reason.
    fn hear(&mut self, text: &str) -> Result<(), &'static str>;

    /// Whether more may be read; if not, it is asked again whenever something was written.
    fn may_hear(&self) -> bool {
        true
    }

    /// Whether others are at it, who may have something to say in the same moment.
    fn expects_more(&self) -> bool;

    /// Whether the link has served its time once everything that waits is written.
    fn is_done(&self) -> bool {
        false
    }
}

/// Runs the link until it ends, and says why it did.
pub(super) async fn pump<S>(mut socket: WebSocketStream<S>, post: &Post, ear: &mut impl Ear) -> &'static str
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut clock = interval(PING_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silence = 0;
    loop {
        tokio::select! {
            biased;
            () = post.ready() => {
                if ear.expects_more() {
                    // A turn of the runtime later their frames share one flush. Whoever is alone does not wait.
                    tokio::task::yield_now().await;
                }
                match timeout(WRITE_PATIENCE, write(&mut socket, post)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => break "the wire broke",
                    Err(_) => break "nothing could be written",
                }
            }
            message = socket.next(), if ear.may_hear() => {
                silence = 0;
                if let Err(reason) = post.while_awake(|| take_all(&mut socket, message, ear)) {
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
        // In this order: whoever answers adds its answer before it is done.
        if ear.is_done() && !post.is_waiting() {
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
    post: &Post,
) -> Result<(), tokio_tungstenite::tungstenite::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..READY {
        let Some(frame) = post.take() else { break };
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_tungstenite::tungstenite::protocol::Role;

    /// Has answered everything before the first byte is written.
    struct Done;

    impl Ear for Done {
        fn hear(&mut self, _: &str) -> Result<(), &'static str> {
            Ok(())
        }

        fn expects_more(&self) -> bool {
            false
        }

        fn is_done(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_link_that_is_done_writes_everything_before_it_closes() {
        let (near, far) = tokio::io::duplex(1 << 20);
        let near = WebSocketStream::from_raw_socket(near, Role::Server, Some(socket_config())).await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, Some(socket_config())).await;
        let post = Post::new("[");
        for _ in 0..3 * READY {
            post.say("word");
        }
        let read = async {
            let mut words = 0;
            while let Some(Ok(Message::Text(_))) = far.next().await {
                words += 1;
            }
            let _ = far.close(None).await;
            words
        };
        let mut ear = Done;
        let (reason, words) = tokio::join!(pump(near, &post, &mut ear), read);
        assert_eq!((reason, words), ("done", 3 * READY));
    }
}
