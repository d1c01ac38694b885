//! Calls the HTTP routes of a service in this process, for the gateway and for other processes alike.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use kernel::http::deadline_of;
use kernel::{RpcError, catch_panic_of, timed_out};
use std::convert::Infallible;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// A request with a deadline is finished although its client leaves, as a call on a WebSocket is: otherwise a service could
/// store something and never tell. One without is a stream, and is cancelled.
pub async fn call(router: Router, request: Request, tracker: &TaskTracker) -> Result<Response, RpcError> {
    let within = deadline_of(request.headers());
    let answering = async move {
        let path = request.uri().path().to_owned();
        let answering = async {
            let response: Result<Response, Infallible> = router.oneshot(request).await;
            Ok(response.unwrap_or_else(|never| match never {}))
        };
        let answering = catch_panic_of(&path, answering);
        match within {
            Some(within) => {
                timeout(within, answering).await.unwrap_or_else(|_| Err(timed_out(&path, within)))
            }
            None => answering.await,
        }
    };
    match within {
        Some(_) => tracker.spawn(answering).await.unwrap_or_else(|ended| Err(RpcError::internal(ended))),
        None => answering.await,
    }
}
