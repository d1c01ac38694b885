//! A socket whose other side has to read: if too little is written for too long, that is an error, which closes the connection.
//!
//! A single write that succeeds is not enough: TLS takes some kilobytes into a buffer of its own although the socket is stuck, and
//! a reader may take a few bytes now and then to keep its answer waiting for ever.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What has to be written within the limit once the socket was stuck, unless less was all there was.
const LEAST_PROGRESS: usize = 16 << 10;

pub(super) struct TimedWrites<S> {
    inner: S,
    limit: Duration,
    /// Since nothing could be written, and how much was written after it.
    stuck: Option<Pin<Box<Sleep>>>,
    written: usize,
}

impl<S> TimedWrites<S> {
    pub fn new(inner: S, limit: Duration) -> TimedWrites<S> {
        TimedWrites { inner, limit, stuck: None, written: 0 }
    }

    pub fn into_inner(self) -> S {
        self.inner
    }

    /// The outcome of a write, or an error if it has been stuck for too long.
    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), true) = (&written, self.stuck.is_some()) {
            self.written += bytes;
            if self.written >= LEAST_PROGRESS {
                self.is_free();
            }
        }
        self.timed(cx, written)
    }

    /// The outcome of a flush: when it is done, everything is written.
    fn flushed(&mut self, cx: &mut Context<'_>, flushed: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if flushed.is_ready() {
            self.is_free();
        }
        self.timed(cx, flushed)
    }

    fn is_free(&mut self) {
        (self.stuck, self.written) = (None, 0);
    }

    fn timed<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            return outcome;
        }
        let limit = self.limit;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(limit)));
        stuck
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::Error::new(ErrorKind::TimedOut, "slow reader: too little could be written")))
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
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.flushed(cx, flushed)
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

    #[tokio::test]
    async fn a_reader_that_takes_a_byte_now_and_then_is_no_reader() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = TimedWrites::new(near, Duration::from_millis(200));
        let reading = async {
            for _ in 0..4096 {
                sleep(Duration::from_millis(20)).await;
                far.read_u8().await.unwrap();
            }
        };
        let written = tokio::select! {
            written = near.write_all(&[0; 4096]) => written,
            () = reading => Ok(()),
        };
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_was_written_whole_leaves_no_deadline() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = TimedWrites::new(near, Duration::from_millis(50));
        for _ in 0..3 {
            let mut read = [0; 8];
            let writing = async {
                near.write_all(b"12345678").await?;
                near.flush().await
            };
            let (written, read) = tokio::join!(writing, far.read_exact(&mut read));
            assert!(written.is_ok() && read.is_ok());
            sleep(Duration::from_millis(60)).await;
        }
    }
}
