//! The calling side of a mesh link: calls go out, and each answer completes the call it belongs to.

mod run;

use super::link_sessions::SentSessions;
use super::pending_calls::{self, Completion, PendingCalls};
use super::wire::{self, CallerForm, CallerRef, OutgoingCall};
use super::write_queue::MeshWriteQueue;
use crate::telemetry::LinkMetrics;
use kernel::{Answer, AnswerRef, OnAnswer, RpcError, codes, unavailable};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll};
use std::time::Instant;
use tokio::sync::{Notify, oneshot};

pub(super) struct MeshLink {
    namespace: &'static str,
    url: String,
    /// Whether new calls may be sent.
    open: AtomicBool,
    state: Mutex<LinkState>,
    /// A call was sent while no other was pending.
    first_call: Notify,
    /// What the other side said when the link opened.
    turned_off: Mutex<Vec<String>>,
    metrics: LinkMetrics,
}

#[derive(Default)]
struct LinkState {
    /// While new calls may be sent.
    queue: Option<MeshWriteQueue>,
    sent_sessions: SentSessions,
    pending: PendingCalls,
}

impl MeshLink {
    pub fn new(namespace: &'static str, url: &str, metrics: LinkMetrics) -> MeshLink {
        MeshLink {
            namespace,
            url: url.to_owned(),
            open: AtomicBool::new(false),
            state: Mutex::default(),
            first_call: Notify::new(),
            turned_off: Mutex::default(),
            metrics,
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether the operator of the other side turned a namespace off.
    pub fn is_turned_off(&self, namespace: &str) -> bool {
        self.turned_off.lock().iter().any(|turned_off| turned_off == namespace)
    }

    pub fn pending(&self) -> i64 {
        self.metrics.pending.get()
    }

    /// Sends a call; `then` is called with its outcome.
    pub fn send(&self, caller: CallerRef<'_>, call: &OutgoingCall<'_>, then: OnAnswer) {
        if let Err((then, error)) = self.begin(caller, call, then) {
            then(Err(error), call.term.began);
        }
    }

    /// Sends a call; the future is its outcome.
    pub fn call(self: &Arc<Self>, caller: CallerRef<'_>, call: &OutgoingCall<'_>) -> CallFuture {
        let (answer, receiver) = oneshot::channel();
        let then = Box::new(|outcome: Result<AnswerRef<'_>, RpcError>, _| {
            let _ = answer.send(outcome.map(AnswerRef::to_owned));
        });
        let id = match self.begin(caller, call, then) {
            Ok(id) => Some(id),
            Err((then, error)) => {
                then(Err(error), call.term.began);
                None
            }
        };
        CallFuture { link: self.clone(), id, receiver }
    }

    fn begin(
        &self,
        caller: CallerRef<'_>,
        call: &OutgoingCall<'_>,
        then: OnAnswer,
    ) -> Result<u64, (OnAnswer, RpcError)> {
        let deadline = call.term.began + call.term.within;
        let mut state = self.state.lock();
        // Under one lock, so that the frame with a session in full is queued before one that only names it.
        let LinkState { queue, sent_sessions, pending } = &mut *state;
        let Some(queue) = queue else { return Err((then, unavailable(self.namespace))) };
        if pending.is_full() || !queue.has_space() {
            return Err((then, too_many_calls(self.namespace)));
        }
        let form = sent_sessions.form_of(caller);
        if matches!(form, CallerForm::FullAfterForget) {
            queue.add_frame(wire::FORGET);
        }
        let is_first = pending.len() == 0;
        let id = pending.add(deadline, then, call.trace.cloned());
        self.metrics.pending.set(gauge(pending.len()));
        queue.add_item(|out| wire::write_call(out, id, caller, &form, call));
        drop(state);
        if is_first {
            self.first_call.notify_one();
        }
        self.metrics.calls.inc();
        Ok(id)
    }

    /// Takes the calls with these ids out of the table.
    fn take(&self, ids: impl Iterator<Item = u64>) -> Vec<Option<Completion>> {
        let mut state = self.state.lock();
        let taken = ids.map(|id| state.pending.take(id)).collect();
        self.metrics.pending.set(gauge(state.pending.len()));
        taken
    }

    /// Fails the calls whose deadline has passed.
    fn fail_overdue(&self) {
        let overdue = {
            let mut state = self.state.lock();
            let overdue = state.pending.take_overdue(Instant::now());
            self.metrics.pending.set(gauge(state.pending.len()));
            overdue
        };
        pending_calls::fail_all(overdue, || {
            let sentence =
                format!("rpc handler timeout: the {} service did not answer in time", self.namespace);
            RpcError::new(codes::HANDLER_TIMEOUT, sentence)
        });
    }

    /// Refuses new calls, and fails those that are pending: nobody will answer them.
    pub fn close(&self, reason: &str) {
        self.open.store(false, Ordering::Release);
        self.metrics.up.set(0);
        let pending = {
            let mut state = self.state.lock();
            state.queue = None;
            self.metrics.pending.set(0);
            state.pending.take_all()
        };
        pending_calls::fail_all(pending, || {
            let sentence = format!(
                "the link to the {} service ended before it answered ({reason}); whether the call had an effect is \
                 unknown",
                self.namespace
            );
            RpcError::new(codes::UNAVAILABLE, sentence)
        });
    }
}

fn gauge(calls: usize) -> i64 {
    i64::try_from(calls).unwrap_or(i64::MAX)
}

fn too_many_calls(namespace: &str) -> RpcError {
    RpcError::new(codes::UNAVAILABLE, format!("too many calls wait for the {namespace} service"))
}

/// The outcome of one call. Dropped before that, it frees the slot of the call.
pub(super) struct CallFuture {
    link: Arc<MeshLink>,
    /// Until it is answered.
    id: Option<u64>,
    receiver: oneshot::Receiver<Result<Answer, RpcError>>,
}

impl Future for CallFuture {
    type Output = Result<Answer, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let answer = task::ready!(Pin::new(&mut self.receiver).poll(cx));
        self.id = None;
        Poll::Ready(answer.unwrap_or_else(|_| Err(unavailable(self.link.namespace))))
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.link.take([id].into_iter());
        }
    }
}
