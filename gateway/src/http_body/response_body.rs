//! The body that a service answers with: until its deadline, and a stream of events until the server stops.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::CONTENT_TYPE;
use std::any::Any;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

type BodyError = Box<dyn std::error::Error + Send + Sync>;

pub struct ResponseBody<B> {
    inner: B,
    deadline: Option<Pin<Box<Sleep>>>,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _held: Option<Box<dyn Any + Send>>,
}

impl<B> ResponseBody<B> {
    pub fn new(inner: B) -> ResponseBody<B> {
        ResponseBody { inner, deadline: None, stop: None, _held: None }
    }

    /// What is not written by then is not written: the response ends with an error.
    #[must_use]
    pub fn until(mut self, deadline: Instant) -> ResponseBody<B> {
        self.deadline = Some(Box::pin(sleep_until(deadline)));
        self
    }

    /// Keeps something until the end of the body.
    #[must_use]
    pub fn holding(mut self, held: impl Any + Send) -> ResponseBody<B> {
        self._held = Some(Box::new(held));
        self
    }

    /// Ends whole when the server stops. For streams without an end of their own: their readers ask again elsewhere.
    #[must_use]
    pub fn until_stopped(mut self, stop: &CancellationToken) -> ResponseBody<B> {
        self.stop = Some(Box::pin(stop.clone().cancelled_owned()));
        self
    }
}

/// Whether a response is a stream of events, which has no end of its own.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = &mut *self;
        if let Poll::Ready(piece) = Pin::new(&mut body.inner).poll_frame(cx) {
            return Poll::Ready(piece.map(|piece| piece.map_err(Into::into)));
        }
        if body.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(None);
        }
        if body.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready()) {
            let late = Error::new(ErrorKind::TimedOut, "the service did not finish its answer in time");
            return Poll::Ready(Some(Err(late.into())));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
