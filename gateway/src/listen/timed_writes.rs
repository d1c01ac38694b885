//! A socket whose other side has to read: a write that is stuck for too long is an error, which closes the connection.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

pub(super) struct TimedWrites<S> {
    inner: S,
    limit: Duration,
    /// Since nothing could be written.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedWrites<S> {
    pub fn new(inner: S, limit: Duration) -> TimedWrites<S> {
        TimedWrites { inner, limit, stuck: None }
    }

    pub fn into_inner(self) -> S {
        self.inner
    }

    /// The outcome of a write, or an error if it has been stuck for too long.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let limit = self.limit;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(limit)));
        stuck
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::Error::new(ErrorKind::TimedOut, "slow reader: nothing could be written")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.timed(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.timed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.timed(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_write_is_an_error_once_nobody_reads_for_too_long() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = TimedWrites::new(near, Duration::from_millis(200));
        near.write_all(b"1234").await.unwrap();
        let mut first = [0; 4];
        let (written, read) = tokio::join!(near.write_all(b"5678"), far.read_exact(&mut first));
        assert!(written.is_ok() && read.is_ok(), "it is stuck only while nobody reads");
        assert_eq!(near.write_all(b"9").await.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
