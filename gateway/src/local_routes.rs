//! Calls the HTTP routes of a service in this process, for the gateway and for other processes alike.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use kernel::http::{deadline_of, stores};
use kernel::{RpcError, catch_panic_of, timed_out};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// How long a handler goes on after its client has left, where the request has no deadline: as long as a call may take.
const FINISHED_WITHIN: Duration = Duration::from_secs(30);

/// A request with a deadline is finished although its client leaves, as a call on a WebSocket is: otherwise a service could
/// store something and never tell. One without is a stream. Where it stores something, its handler goes on until it has made the head
/// of its response, so that a service never does half of what it was asked; the stream itself ends, and so do all others with their
/// clients.
pub async fn call(router: Router, request: Request, tracker: &TaskTracker) -> Result<Response, RpcError> {
    call_and_finish(router, request, tracker, FINISHED_WITHIN).await
}

async fn call_and_finish(
    router: Router,
    request: Request,
    tracker: &TaskTracker,
    finished_within: Duration,
) -> Result<Response, RpcError> {
    let within = deadline_of(request.headers());
    let stores = stores(request.method().as_str(), request.uri().path());
    let path = request.uri().path().to_owned();
    let answering = {
        let path = path.clone();
        async move {
            let answering = async {
                let response: Result<Response, Infallible> = router.oneshot(request).await;
                Ok(response.unwrap_or_else(|never| match never {}))
            };
            catch_panic_of(&path, answering).await
        }
    };
    let spawned = match within {
        Some(within) => tracker.spawn(async move {
            timeout(within, answering).await.unwrap_or_else(|_| Err(timed_out(&path, within)))
        }),
        None if stores => return until_head(path, answering, tracker, finished_within).await,
        None => return answering.await,
    };
    spawned.await.unwrap_or_else(|ended| Err(RpcError::internal(ended)))
}

/// Waits for the head of a response. Whoever drops this is a client that has left; the handler goes on for a while then.
async fn until_head(
    path: String,
    answering: impl Future<Output = Result<Response, RpcError>> + Send + 'static,
    tracker: &TaskTracker,
    finished_within: Duration,
) -> Result<Response, RpcError> {
    let left = CancellationToken::new();
    let client = left.clone().drop_guard();
    let finishing = tracker.spawn(async move {
        let too_late = async {
            left.cancelled().await;
            sleep(finished_within).await;
        };
        tokio::select! {
            answered = answering => answered,
            () = too_late => {
                tracing::warn!("{path}: its client has left, and its handler was not done in time");
                Err(timed_out(&path, finished_within))
            }
        }
    });
    let answered = finishing.await.unwrap_or_else(|ended| Err(RpcError::internal(ended)));
    drop(client);
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::any;
    use std::future::pending;
    use std::pin::pin;
    use tokio::sync::mpsc;
    use tokio::sync::mpsc::error::TryRecvError;

    /// Held by a handler as long as it runs.
    async fn never(ended: mpsc::Sender<()>) {
        let _ended = ended;
        pending().await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_handler_that_stores_goes_on_for_a_while_and_others_end_with_their_client() {
        for (verb, stores) in [("POST", true), ("GET", false)] {
            let (ended, mut running) = mpsc::channel(1);
            let router = Router::new().route("/of/nobody", any(move || never(ended.clone())));
            let request = Request::builder().method(verb).uri("/of/nobody").body(Body::empty()).unwrap();
            let tracker = TaskTracker::new();
            {
                let mut calling =
                    pin!(call_and_finish(router, request, &tracker, Duration::from_millis(300)));
                assert!(timeout(Duration::from_millis(10), calling.as_mut()).await.is_err());
            }
            let goes_on = running.try_recv() == Err(TryRecvError::Empty);
            assert_eq!((goes_on, tracker.len()), (stores, usize::from(stores)), "{verb}");
            assert_eq!(timeout(LONG, running.recv()).await, Ok(None), "{verb} ends after that");
            tracker.close();
            timeout(LONG, tracker.wait()).await.expect("no task is left");
        }
    }
}
