//! The answers to a `POST /rpc` array until the last one is there. Each counts as if it waited to be read, and there are no more of them
//! than one answer may have: a small request cannot ask for any amount of them.

use super::caller::HttpCaller;
use crate::gateway::GatewayState;
use kernel::{EvictionSignal, HeldBytes, RpcError, codes};
use parking_lot::Mutex;
use std::sync::Arc;

/// What the calls of one array have answered so far, counted for as long as this exists.
pub(super) struct GatheredAnswers {
    most: usize,
    held: Mutex<HeldBytes>,
    /// Others need what is held here.
    signal: Arc<EvictionSignal>,
}

impl GatheredAnswers {
    pub fn new(gateway: &GatewayState, caller: &HttpCaller) -> GatheredAnswers {
        let signal = Arc::default();
        let held = Mutex::new(gateway.unread_budget.hold(caller.owner(), 0, &signal));
        GatheredAnswers { most: gateway.config.limits.array_answer_bytes, held, signal }
    }

    /// Refused before a call is made whose answer would not be kept.
    pub fn check(&self) -> Result<(), RpcError> {
        let held = self.held.lock().bytes();
        match held >= self.most || self.signal.is_evicted() {
            true => Err(self.full(held, "this call was not made")),
            false => Ok(()),
        }
    }

    /// Counts an answer. It is refused if it does not fit: then its call was made all the same.
    pub fn add(&self, answer: &str) -> Result<(), RpcError> {
        let mut held = self.held.lock();
        let fits = held.bytes() + answer.len() <= self.most && !self.signal.is_evicted();
        match fits && held.try_add(answer.len()) {
            true => Ok(()),
            false => Err(self.full(held.bytes(), "this call was made, and its answer does not fit")),
        }
    }

    fn full(&self, held: usize, what: &str) -> RpcError {
        let most = self.most;
        let sentence = format!(
            "the answers to one array may have {most} bytes, and all of your arrays share a budget; \
             send fewer calls at once: {what}"
        );
        RpcError::new(codes::ANSWERS_TOO_LARGE, sentence)
            .with("scope", "array_answer_bytes")
            .with("limit", most)
            .with("held", held)
    }
}
