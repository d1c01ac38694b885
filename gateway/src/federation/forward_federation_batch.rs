//! `gateway.forward_federation_batch`: several calls to one domain, begun in their order and answered in it.

use super::Federation;
use super::forward_federation::{LONGEST, check_service};
use futures_util::future::join_all;
use services::kernel::{Caller, ForwardBatch, ForwardOutcome, ForwardedBatch, RpcError, codes};
use std::sync::Arc;
use std::time::Duration;

const MOST: usize = 200;

impl Federation {
    pub(super) async fn forward_federation_batch(
        self: Arc<Self>,
        caller: Caller,
        params: ForwardBatch,
    ) -> Result<ForwardedBatch, RpcError> {
        check_service(&caller)?;
        let issuer = self.target(&params.target_issuer)?;
        if params.items.len() > MOST {
            let sentence = format!("params.items: at most {MOST} calls go together");
            return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
        }

        let longest = params.timeout_ms.map_or(LONGEST, Duration::from_millis).min(LONGEST);
        // All of them have their place in the order before the first is waited for.
        let begun: Vec<_> =
            params.items.into_iter().map(|item| self.begin_one(&issuer, item, longest)).collect();
        let ended = begun.into_iter().map(|begun| async { begun?.await });
        let results = join_all(ended).await.into_iter().map(ForwardOutcome::from).collect();
        Ok(ForwardedBatch { results, target_issuer: issuer })
    }
}
