//! A whole body: no larger than its limit, in time, and counted like the frames that have not arrived whole.

use super::caller::HttpCaller;
use super::reply;
use crate::gateway::GatewayState;
use crate::http_body::{BodyRefused, RequestBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use kernel::{EvictionSignal, HeldBytes, RpcError, codes};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What a request without a known caller may have.
const UNAUTHENTICATED_BYTES: usize = 64 << 10;
/// How long the whole body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// A smaller body is not worth counting.
const UNCOUNTED: usize = 4 << 10;

/// A body, and what is counted for it as long as this exists.
pub(super) struct WholeBody {
    pub bytes: Bytes,
    _held: Option<HeldBytes>,
}

pub(super) async fn collect(
    gateway: &GatewayState,
    caller: &HttpCaller,
    body: Incoming,
    most_bytes: usize,
) -> Result<WholeBody, RpcError> {
    let most_bytes = if caller.is_known() { most_bytes } else { most_bytes.min(UNAUTHENTICATED_BYTES) };
    if body.size_hint().lower() > most_bytes as u64 {
        return Err(reply::body_refused(BodyRefused::TooLarge));
    }
    let (body, watch) = RequestBody::new(body, most_bytes, BODY_TIMEOUT);
    let signal = Arc::<EvictionSignal>::default();
    let collecting = gather(gateway, caller, body, &signal);
    let collected = tokio::select! {
        collected = timeout(BODY_TIMEOUT, collecting) => collected,
        () = signal.evicted() => return Err(too_many_bytes()),
    };
    match collected {
        Ok(Some(body)) => Ok(body),
        Ok(None) | Err(_) => Err(reply::body_refused(watch.refused().unwrap_or(BodyRefused::TooSlow))),
    }
}

/// None if it ends early.
async fn gather(
    gateway: &GatewayState,
    caller: &HttpCaller,
    mut body: RequestBody<Incoming>,
    signal: &Arc<EvictionSignal>,
) -> Option<WholeBody> {
    let (mut gathered, mut held) = (BytesMut::new(), None::<HeldBytes>);
    while let Some(piece) = body.frame().await {
        let Ok(piece) = piece.ok()?.into_data() else { continue };
        gathered.extend_from_slice(&piece);
        let bytes = gathered.capacity();
        match &mut held {
            Some(held) if held.bytes() >= bytes => {}
            Some(held) => held.resize(bytes),
            None if bytes <= UNCOUNTED => {}
            None => held = Some(gateway.frame_budget.hold(caller.owner(), bytes, signal)),
        }
    }
    Some(WholeBody { bytes: gathered.freeze(), _held: held })
}

/// The caller holds most of what all callers may: the budget is exceeded.
fn too_many_bytes() -> RpcError {
    RpcError::new(codes::UNAVAILABLE, "too many bytes of unfinished requests")
}
