//! The body of an answer on its way to the client: each large piece counts from the moment that it is handed to the socket until it
//! is written, and all of them share one budget. Whoever asks and does not read pays when it is exceeded.

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use kernel::{ByteBudget, BytesOwner, EvictionSignal, HeldBytes};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Smaller pieces are copied into the buffer of the connection, which is bounded.
const COUNTED: usize = 4 << 10;

pub struct UnreadBody {
    inner: Body,
    budget: Arc<ByteBudget>,
    owner: BytesOwner,
    signal: Arc<EvictionSignal>,
}

impl UnreadBody {
    /// The same body, counted if it may have large pieces.
    pub fn count(
        body: Body,
        budget: &Arc<ByteBudget>,
        owner: BytesOwner,
        signal: &Arc<EvictionSignal>,
    ) -> Body {
        if body.size_hint().upper().is_some_and(|bytes| bytes < COUNTED as u64) {
            return body;
        }
        Body::new(UnreadBody { inner: body, budget: budget.clone(), owner, signal: signal.clone() })
    }
}

impl hyper::body::Body for UnreadBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let piece = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        Poll::Ready(piece.map(|piece| {
            Ok(piece?.map_data(|bytes| {
                if bytes.len() < COUNTED {
                    return bytes;
                }
                let held = self.budget.hold(self.owner.clone(), bytes.len(), &self.signal);
                Bytes::from_owner(UnreadPiece { bytes, _held: held })
            }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Counts as long as the connection has it.
struct UnreadPiece {
    bytes: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for UnreadPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn a_large_piece_counts_until_it_is_dropped() {
        let (budget, signal) = (ByteBudget::new(10_000), Arc::<EvictionSignal>::default());
        let owner = BytesOwner::of_address([192, 0, 2, 1].into());
        let count =
            |bytes: usize| UnreadBody::count(Body::from(vec![1; bytes]), &budget, owner.clone(), &signal);
        let piece = count(8000).collect().await.unwrap().to_bytes();
        assert_eq!((piece.len(), budget.total()), (8000, 8000));
        let small = count(100).collect().await.unwrap().to_bytes();
        assert_eq!((small.len(), budget.total()), (100, 8000), "small answers are not counted");
        drop(piece);
        assert_eq!((budget.total(), signal.is_evicted()), (0, false));
        let too_much = count(10_001).collect().await.unwrap().to_bytes();
        assert_eq!((too_much.len(), signal.is_evicted()), (10_001, true));
    }
}
