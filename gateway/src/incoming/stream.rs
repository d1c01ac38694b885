//! The stream that the library reads from and writes to: what is read is looked at on the way, what is written is not.

use super::frame_header::FrameHeader;
use super::{FrameRefused, HeaderBytes, IncomingFrames, PIECE};
use bytes::{Buf as _, Bytes};
use kernel::{EvictionSignal, HeldBytes};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

impl<S: AsyncRead + Unpin> IncomingFrames<S> {
    fn poll_inner(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.early.is_empty() {
            let length = self.early.len().min(bytes.len());
            self.early.copy_to_slice(&mut bytes[..length]);
            if self.early.is_empty() {
                self.early = Bytes::new();
            }
            return Poll::Ready(Ok(length));
        }
        let mut part = ReadBuf::new(bytes);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part))?;
        Poll::Ready(Ok(part.filled().len()))
    }

    /// Reads on at a header that has not arrived whole. False at the end of the stream.
    fn poll_header(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let have = self.begun.length;
        let length = FrameHeader::length_of(&self.begun.bytes[..have]);
        let mut more = [0; FrameHeader::MOST_BYTES];
        let read = ready!(self.poll_inner(cx, &mut more[..length - have]))?;
        self.begun.bytes[have..have + read].copy_from_slice(&more[..read]);
        self.begun.length += read;
        let have = self.begun.length;
        if have == FrameHeader::length_of(&self.begun.bytes[..have]) {
            let mut header = std::mem::take(&mut self.begun);
            self.begin(&mut header.bytes[..have])?;
            self.ready = header;
        }
        Poll::Ready(Ok(read > 0))
    }

    fn poll_frames(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(refused) = self.refused {
                return Poll::Ready(Err(refused.into()));
            }
            if self.ready.length > 0 {
                let now = self.ready.length.min(buffer.remaining());
                buffer.put_slice(&self.ready.bytes[..now]);
                self.ready = HeaderBytes::of(&self.ready.bytes[now..self.ready.length]);
                return Poll::Ready(Ok(()));
            }
            if self.begun.length > 0 {
                if !ready!(self.poll_header(cx))? {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            // Never past the end of a piece that another follows, whose header comes between them. A piece that begins within
            // these bytes does not end within them.
            let cut = if self.after > 0 { usize::try_from(self.left).unwrap_or(PIECE) } else { PIECE };
            let bytes = buffer.initialize_unfilled_to(buffer.remaining().min(cut));
            let read = ready!(self.poll_inner(cx, bytes))?;
            let passed = self.scan(&mut bytes[..read]);
            buffer.advance(passed);
            self.count();
            if passed > 0 || read == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IncomingFrames<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let evicted = |held: &(HeldBytes, Arc<EvictionSignal>)| held.1.poll_evicted(cx).is_ready();
        if self.held.as_ref().is_some_and(evicted) {
            self.refused = Some(FrameRefused::BudgetExceeded);
        }
        self.poll_frames(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IncomingFrames<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
