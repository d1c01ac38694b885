//! `gateway.forward_federation_batch`: several calls to one domain, begun in their order and answered in it.

use super::Federation;
use super::forward_federation::{LONGEST_TIMEOUT, check_service};
use futures_util::future::join_all;
use services::kernel::{Caller, ForwardBatch, ForwardOutcome, ForwardedBatch, RpcError, codes};
use std::sync::Arc;
use std::time::Duration;

const MOST_ITEMS: usize = 200;

impl Federation {
    pub(super) async fn forward_federation_batch(
        self: Arc<Self>,
        caller: Caller,
        params: ForwardBatch,
    ) -> Result<ForwardedBatch, RpcError> {
        check_service(&caller)?;
        let issuer = self.target(&params.target_issuer)?;
        if params.items.len() > MOST_ITEMS {
            let sentence = format!("params.items must have at most {MOST_ITEMS} calls");
            return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
        }

        let longest = params.timeout_ms.map_or(LONGEST_TIMEOUT, Duration::from_millis).min(LONGEST_TIMEOUT);
        // All of them are queued, in their order, before the first is awaited.
        let begun: Vec<_> =
            params.items.into_iter().map(|item| self.begin_one(&issuer, item, longest)).collect();
        let outcomes = begun.into_iter().map(|begun| async { begun?.await });
        let results = join_all(outcomes).await.into_iter().map(ForwardOutcome::from).collect();
        Ok(ForwardedBatch { results, target_issuer: issuer })
    }
}
