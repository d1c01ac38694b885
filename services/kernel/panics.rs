//! A panic ends the call it happened in and nothing else: the caller gets an internal error, and it is logged once. A call that keeps a
//! thread of the runtime from all others is logged, too.

use super::RpcError;
use futures_util::FutureExt as _;
use pin_project_lite::pin_project;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// So long a call may compute before it lets others use its thread.
const LONG: Duration = Duration::from_millis(100);

/// Does something that must not take the task around it down. `name` is the method, or what else is being done.
pub fn catch_panic<T>(name: &str, call: impl FnOnce() -> Result<T, RpcError>) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(panicked(name)))
}

/// The same for a future. Not an `async fn`: that would hold the future twice, as its argument and while it waits.
pub fn catch_panic_of<T>(
    name: &str,
    call: impl Future<Output = Result<T, RpcError>>,
) -> impl Future<Output = Result<T, RpcError>> {
    AssertUnwindSafe(TimedPolls { name, call })
        .catch_unwind()
        .map(move |done| done.unwrap_or_else(|_| Err(panicked(name))))
}

pin_project! {
    /// Says which call computes for too long.
    struct TimedPolls<'n, F> {
        name: &'n str,
        #[pin]
        call: F,
    }
}

impl<F: Future> Future for TimedPolls<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let (this, began) = (self.project(), Instant::now());
        let polled = this.call.poll(cx);
        let took = began.elapsed();
        if took > LONG {
            tracing::warn!(rpc.method = *this.name, ms = took.as_millis(), "a call blocked a runtime thread");
        }
        polled
    }
}

/// The panic hook has printed what and where; this logs in which call.
fn panicked(name: &str) -> RpcError {
    RpcError::internal(anyhow::anyhow!("{name} panicked")).logged(name)
}

#[cfg(test)]
mod tests {
    use super::super::codes;
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_internal_error_and_everything_else_passes() {
        let refused = || RpcError::plain(codes::NOT_FOUND);
        assert_eq!(catch_panic("test", || Ok(1)).unwrap(), 1);
        assert_eq!(catch_panic::<()>("test", || Err(refused())).unwrap_err().code(), codes::NOT_FOUND.code);
        let panics = catch_panic::<()>("test", || panic!("on purpose"));
        assert_eq!(panics.unwrap_err().code(), codes::INTERNAL.code);

        assert_eq!(catch_panic_of("test", async { Ok(1) }).await.unwrap(), 1);
        let panics = catch_panic_of::<()>("test", async { panic!("on purpose") }).await;
        assert_eq!(panics.unwrap_err().code(), codes::INTERNAL.code);
    }
}
