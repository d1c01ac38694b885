//! The raw baseline of delivery: a frame comes in on one socket and goes out on another, with no store between.
//!
//! It does what any server must: parse the request, answer it, find the receiver, one flush per batch of ready frames.

use std::collections::HashMap;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Frames that may wait for one receiver. What does not fit is lost, and the bench fails.
const WAITING: usize = 65_536;

/// The outbox of each recipient.
#[derive(Default)]
pub(crate) struct RelayRouter(Mutex<HashMap<String, mpsc::Sender<Utf8Bytes>>>);

#[derive(Deserialize)]
struct RelayRequest<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct RelayParams<'a> {
    to: &'a str,
}

impl RelayRouter {
    pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, mut socket: WebSocketStream<S>) {
        let (outbox, mut inbox) = mpsc::channel(WAITING);
        loop {
            let mut next = tokio::select! {
                frame = socket.next() => match frame {
                    Some(Ok(Message::Text(text))) => self.take(&text, &outbox),
                    _ => return,
                },
                event = inbox.recv() => event,
            };
            while let Some(frame) = next {
                if socket.feed(Message::Text(frame)).await.is_err() {
                    return;
                }
                next = match socket.next().now_or_never() {
                    None => inbox.try_recv().ok(),
                    Some(Some(Ok(Message::Text(text)))) => self.take(&text, &outbox),
                    Some(_) => return,
                };
            }
            if socket.flush().await.is_err() {
                return;
            }
        }
    }

    /// Forwards a message, or registers this socket for a recipient; gives the answer.
    fn take(&self, text: &str, outbox: &mpsc::Sender<Utf8Bytes>) -> Option<Utf8Bytes> {
        let request: RelayRequest<'_> = serde_json::from_str(text).ok()?;
        let params: RelayParams<'_> = serde_json::from_str(request.params.get()).ok()?;
        if request.method == "join" {
            self.0.lock().insert(params.to.to_owned(), outbox.clone());
        } else {
            let (event, receiver) = (event(request.params), self.0.lock().get(params.to).cloned()?);
            receiver.try_send(event).ok()?;
        }
        Some(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request.id.get()).into())
    }
}

fn event(params: &RawValue) -> Utf8Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"event/message.received","params":{}}}"#, params.get()).into()
}
