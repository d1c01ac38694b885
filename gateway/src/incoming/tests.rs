//! Frames of any size, in reads of any size, arrive as they were sent; those that are refused cost nothing.

use super::*;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

const MOST: usize = 200_000;

fn owner(n: u8) -> BytesOwner {
    BytesOwner::of_address([192, 0, n, 1].into())
}

fn incoming(inner: DuplexStream, early: &[u8], budget: &Arc<ByteBudget>) -> IncomingFrames<DuplexStream> {
    IncomingFrames::new(inner, Bytes::copy_from_slice(early), MOST, owner(1), budget.clone())
}

async fn server(stream: IncomingFrames<DuplexStream>) -> WebSocketStream<IncomingFrames<DuplexStream>> {
    let config = WebSocketConfig::default().read_buffer_size(4096).max_message_size(Some(MOST));
    WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await
}

/// A masked text frame of zeros, which the mask makes spaces.
fn header(first: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![first, 0xff];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(b"    ");
    bytes
}

fn refusal(error: Option<Result<Message, Error>>) -> FrameRefused {
    let Some(Err(Error::Io(error))) = error else { panic!("{error:?} is no refusal") };
    *error.get_ref().and_then(|inner| inner.downcast_ref::<FrameRefused>()).expect("a refusal")
}

#[tokio::test]
async fn frames_of_any_size_arrive_in_reads_of_any_size() {
    let sizes = [0, 1, 125, 126, 4090, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 5, 65_536, MOST];
    for at_once in [1, 3, 7, 4096, 1 << 20] {
        let budget = ByteBudget::new(1 << 20);
        let (near, far) = tokio::io::duplex(at_once);
        let mut server = server(incoming(near, b"", &budget)).await;
        let mut client = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        // Two bytes for each character, so that pieces end in the middle of one.
        let texts = sizes.map(|size| format!("{}{}", "x".repeat(size % 2), "é".repeat(size / 2)));
        let sending = async {
            for text in &texts {
                client.feed(Message::text(text.clone())).await.unwrap();
                client.feed(Message::Ping(Bytes::from_static(b"now"))).await.unwrap();
            }
            client.flush().await.unwrap();
        };
        let receiving = async {
            for text in &texts {
                let received = server.next().await.unwrap().unwrap();
                assert!(received == Message::text(text.clone()), "{} bytes, {at_once} at once", text.len());
                assert!(server.next().await.unwrap().unwrap().is_ping());
            }
        };
        tokio::join!(sending, receiving);
        assert_eq!(budget.total(), 0, "what is finished is not counted");
    }
}

#[tokio::test]
async fn what_was_read_before_the_upgrade_comes_first() {
    let budget = ByteBudget::new(1 << 20);
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let mut early = header(0x81, 6);
    early.extend_from_slice(&[0; 4]);
    let mut server = server(incoming(near, &early, &budget)).await;
    far.write_all(&[0; 2]).await.unwrap();
    assert_eq!(server.next().await.unwrap().unwrap(), Message::text("      "));
}

#[tokio::test]
async fn a_frame_that_is_announced_too_long_is_refused_and_what_came_before_it_is_read() {
    let budget = ByteBudget::new(1 << 20);
    let long = MOST as u64 + 1;
    let fragments = [header(0x01, 1), vec![0], header(0x80, MOST as u64)].concat();
    for refused in [header(0x81, long), header(0x81, u64::MAX), fragments] {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut server = server(incoming(near, b"", &budget)).await;
        far.write_all(&[header(0x81, 1), vec![0], refused].concat()).await.unwrap();
        assert_eq!(server.next().await.unwrap().unwrap(), Message::text(" "));
        assert_eq!(refusal(server.next().await), FrameRefused::TooLongBeforeLogin(MOST));
    }
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let mut server = server(incoming(near, b"", &budget)).await;
    server.get_mut().logged_in(4, None);
    far.write_all(&header(0x89, 126)).await.unwrap();
    assert_eq!(refusal(server.next().await), FrameRefused::LongControlFrame);
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let mut stream = incoming(near, b"", &budget);
    stream.logged_in(4, Some(owner(2)));
    far.write_all(&header(0x81, 5)).await.unwrap();
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.to_string(), "frames are limited to 4 bytes");
}

#[tokio::test]
async fn what_has_arrived_of_unfinished_messages_is_counted_and_evicted() {
    let budget = ByteBudget::new(4 * PIECE);
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let mut first = server(incoming(near, b"", &budget)).await;
    far.write_all(&header(0x81, MOST as u64)).await.unwrap();
    assert!(first.next().now_or_never().is_none());
    assert_eq!(budget.total(), 0, "nothing has arrived but the announcement");
    far.write_all(&vec![0; 2 * PIECE]).await.unwrap();
    assert!(first.next().now_or_never().is_none());
    assert_eq!(budget.total(), 2 * PIECE);
    // Another one of the same network, and then more than fits.
    let (near, mut other) = tokio::io::duplex(1 << 20);
    let mut second = server(incoming(near, b"", &budget)).await;
    other.write_all(&header(0x81, MOST as u64)).await.unwrap();
    other.write_all(&vec![0; 3 * PIECE]).await.unwrap();
    assert!(second.next().now_or_never().is_none());
    assert_eq!(refusal(first.next().await), FrameRefused::BudgetExceeded, "the oldest one");
    assert_eq!(budget.total(), 3 * PIECE);
    drop(second);
    assert_eq!(budget.total(), 0);
}
