//! `gateway.forward_federation_batch`: several calls to one domain, begun in their order and answered in it.

use super::Federation;
use super::forward_federation::{LONGEST_TIMEOUT, named_target};
use super::outbound::RelayOutcome;
use super::relay_origin::RelayOrigin;
use futures_util::future::join_all;
use kernel::{Caller, RpcError, codes, forwarded_item};
use proto_schemas::requests::gateway::{ForwardFederation, ForwardFederationBatch, ForwardedCalls};
use std::sync::Arc;
use std::time::Duration;

const MOST_ITEMS: usize = 200;

impl Federation {
    pub(super) async fn forward_federation_batch(
        self: Arc<Self>,
        caller: Caller,
        params: ForwardFederationBatch,
    ) -> Result<ForwardedCalls, RpcError> {
        let origin = RelayOrigin::of(&caller)?;
        let issuer = self.target(named_target(&params.target_issuer, &params.target_aid)?)?;
        if params.items.len() > MOST_ITEMS {
            let sentence = format!("items must have at most {MOST_ITEMS} calls");
            return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
        }

        let longest = params.timeout_ms.map_or(LONGEST_TIMEOUT, Duration::from_millis).min(LONGEST_TIMEOUT);
        // All of them are queued, in their order, before the first is awaited.
        let begun: Vec<_> =
            params.items.into_iter().map(|item| self.begin_item(&origin, &issuer, item, longest)).collect();
        let outcomes = begun.into_iter().map(|begun| async { begun?.await });
        let results = join_all(outcomes).await.into_iter().map(forwarded_item).collect();
        Ok(ForwardedCalls { results, target_issuer: issuer })
    }

    /// A call that names a target of its own would not get there.
    fn begin_item(
        self: &Arc<Self>,
        origin: &RelayOrigin<'_>,
        issuer: &str,
        item: ForwardFederation,
        longest: Duration,
    ) -> Result<impl Future<Output = RelayOutcome> + use<>, RpcError> {
        if item.target_issuer.is_some() || item.target_aid.is_some() {
            let sentence = "a call of a batch must not name a target: the batch has one for all";
            return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
        }
        self.begin_one(origin, issuer, item, longest)
    }
}
