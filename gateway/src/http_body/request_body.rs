//! The body that a client sends: no longer than its limit, and never silent for too long.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Why the rest of a body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyRefused {
    #[error("the body is too large")]
    TooLarge,
    #[error("the body did not arrive in time")]
    TooSlow,
}

/// What became of a body, for the side that handed it on.
#[derive(Debug, Default)]
pub struct BodyWatch {
    refused: Mutex<Option<BodyRefused>>,
    pieces: AtomicU64,
}

impl BodyWatch {
    pub fn refused(&self) -> Option<BodyRefused> {
        *self.refused.lock()
    }

    /// How many pieces have passed; a body that comes is one whose number grows.
    pub fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }
}

pub struct RequestBody<B> {
    inner: B,
    left: u64,
    longest_silence: Duration,
    /// Since the body was asked for more and had nothing.
    silent_until: Option<Pin<Box<Sleep>>>,
    watch: Arc<BodyWatch>,
}

impl<B> RequestBody<B> {
    pub fn new(inner: B, most_bytes: usize, longest_silence: Duration) -> (RequestBody<B>, Arc<BodyWatch>) {
        let watch = Arc::<BodyWatch>::default();
        let left = most_bytes as u64;
        let body = RequestBody { inner, left, longest_silence, silent_until: None, watch: watch.clone() };
        (body, watch)
    }

    fn refuse(&self, reason: BodyRefused) -> Box<dyn Error + Send + Sync> {
        *self.watch.refused.lock() = Some(reason);
        reason.into()
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let body = &mut *self;
        let Poll::Ready(piece) = Pin::new(&mut body.inner).poll_frame(cx) else {
            let until = Instant::now() + body.longest_silence;
            let silent = body.silent_until.get_or_insert_with(|| Box::pin(sleep_until(until)));
            ready!(silent.as_mut().poll(cx));
            return Poll::Ready(Some(Err(body.refuse(BodyRefused::TooSlow))));
        };
        body.silent_until = None;
        body.watch.pieces.fetch_add(1, Ordering::Relaxed);
        let Some(piece) = piece.transpose().map_err(Into::into)? else { return Poll::Ready(None) };
        let bytes = piece.data_ref().map_or(0, |data| data.len() as u64);
        match body.left.checked_sub(bytes) {
            Some(left) => body.left = left,
            None => return Poll::Ready(Some(Err(body.refuse(BodyRefused::TooLarge)))),
        }
        Poll::Ready(Some(Ok(piece)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use std::convert::Infallible;

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_body_of_the_limit_passes_and_one_byte_more_does_not() {
        let (body, watch) = RequestBody::new(Full::new(Bytes::from_static(b"1234")), 4, SOON);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "1234");
        assert_eq!((watch.refused(), watch.pieces()), (None, 2), "the end is a piece");
        let (body, watch) = RequestBody::new(Full::new(Bytes::from_static(b"12345")), 4, SOON);
        assert_eq!(body.collect().await.unwrap_err().to_string(), "the body is too large");
        assert_eq!(watch.refused(), Some(BodyRefused::TooLarge));
    }

    #[tokio::test]
    async fn a_silent_body_is_refused() {
        let silent = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let (body, watch) = RequestBody::new(silent, 4, SOON);
        body.collect().await.unwrap_err();
        assert_eq!(watch.refused(), Some(BodyRefused::TooSlow));
    }
}
