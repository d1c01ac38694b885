//! Writing: frames into the socket's buffer, one flush for all of them, and the close.

use super::{Conversation, SocketEnd, SocketResult, close_reason, ms};
use crate::connection::CloseReason;
use crate::incoming::FrameRefused;
use futures_util::{FutureExt as _, Sink, SinkExt as _, StreamExt as _};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes, error::CapacityError};

/// Clients read the disconnect event before they see the close.
const EVENT_LEAD: Duration = Duration::from_millis(200);
/// How long the other side has to answer our close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    pub(super) async fn feed(&mut self, text: Utf8Bytes) -> SocketResult {
        self.send(Message::Text(text)).await
    }

    /// Hands a frame to the socket's buffer. A socket that is not writable for too long belongs to a slow reader.
    pub(super) async fn send(&mut self, message: Message) -> SocketResult {
        let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut self.socket).poll_ready(cx))).await;
        match ready {
            Poll::Ready(ready) => ready.map_err(|error| broken(&error))?,
            Poll::Pending => {
                let limit = ms(self.gateway.config.limits.write_timeout_ms);
                let socket = &mut self.socket;
                match Box::pin(timeout(limit, poll_fn(|cx| Pin::new(&mut *socket).poll_ready(cx)))).await {
                    Ok(ready) => ready.map_err(|error| broken(&error))?,
                    Err(_) => return Err(close_reason(1013, "slow reader: nothing could be written")),
                }
            }
        }
        Pin::new(&mut self.socket).start_send(message).map_err(|error| broken(&error))
    }

    /// Says whether everything could be written at once.
    pub(super) async fn flush(&mut self) -> Result<bool, SocketEnd> {
        let done = self.socket.flush().now_or_never();
        let at_once = done.is_some();
        let done = match done {
            Some(done) => done,
            None => {
                let limit = ms(self.gateway.config.limits.write_timeout_ms);
                match Box::pin(timeout(limit, self.socket.flush())).await {
                    Ok(done) => done,
                    Err(_) => return Err(close_reason(1013, "slow reader: nothing could be written")),
                }
            }
        };
        done.map(|()| at_once).map_err(|error| broken(&error))
    }

    /// The event if there is one, then the close frame, then a short wait for the other side's close frame.
    pub(super) async fn close(&mut self, close_reason: CloseReason) {
        let CloseReason { code, mut reason, event } = close_reason;
        let closing = async {
            if let Some(event) = event {
                self.socket.send(Message::Text(event)).await?;
                tokio::time::sleep(EVENT_LEAD).await;
            }
            // A close frame holds 125 bytes, two of them the code.
            while reason.len() > 120 {
                reason.pop();
            }
            let close = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
            self.socket.close(Some(close)).await?;
            while let Some(Ok(_)) = self.socket.next().await {}
            Ok::<(), WsError>(())
        };
        let _ = timeout(EVENT_LEAD + CLOSE_TIMEOUT, closing).await;
    }
}

pub(super) fn broken(error: &WsError) -> SocketEnd {
    match error {
        WsError::Capacity(CapacityError::MessageTooLong { max_size, .. }) => {
            close_reason(1009, &format!("a frame has at most {max_size} bytes"))
        }
        WsError::Utf8(_) => close_reason(1007, "a text frame is not UTF-8"),
        WsError::Io(error) => {
            let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<FrameRefused>());
            refused
                .map_or(SocketEnd::Gone, |refused| close_reason(refused.close_code(), &refused.to_string()))
        }
        WsError::Protocol(reason) => close_reason(1002, &reason.to_string()),
        _ => SocketEnd::Gone,
    }
}
