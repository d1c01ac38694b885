//! HTTP to the manager on a connection that is used again.

use super::{ManagerError, ManagerUrl};
use client::GatewayDialer;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(10);

/// What an answer may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerLimits {
    pub within: Duration,
    pub bytes: usize,
}

/// One connection, opened when it is needed. Requests on it wait for each other.
pub(super) struct ManagerConnection {
    dialer: Arc<GatewayDialer>,
    base: String,
    open: Option<OpenConnection>,
}

/// The connection is driven by the request that uses it, so it needs no task of its own. In between nobody looks at it: that the manager has
/// closed it is noticed by the next request.
struct OpenConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl ManagerConnection {
    pub fn new(url: &ManagerUrl, dialer: Arc<GatewayDialer>) -> ManagerConnection {
        ManagerConnection { dialer, base: url.base.clone(), open: None }
    }

    /// Another connection to the same manager.
    pub fn another(&self) -> ManagerConnection {
        ManagerConnection { dialer: self.dialer.clone(), base: self.base.clone(), open: None }
    }

    /// The path of a route below the base of the manager.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Sends a request, and reads its answer, within its limits. A connection that was used before may have been closed meanwhile: then the
    /// request is sent again at once on a new one, because every call of a runner may be repeated.
    pub async fn send(
        &mut self,
        limits: AnswerLimits,
        request: impl Fn() -> Builder,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ManagerError> {
        let host = self.dialer.host();
        let written = || {
            request()
                .header(HOST, host.as_str())
                .body(Full::new(body.clone()))
                .map_err(|error| ManagerError::Unanswered(format!("this cannot be requested: {error}")))
        };
        if let Some(open) = self.open.take()
            && !open.sender.is_closed()
            && let Ok(answer) = self.exchange(limits, open, written()?).await
        {
            return Ok(answer);
        }
        let open = Self::dial(self.dialer.clone()).await?;
        self.exchange(limits, open, written()?).await
    }

    /// It borrows no connection: what drives one cannot be shared between threads.
    async fn dial(dialer: Arc<GatewayDialer>) -> Result<OpenConnection, ManagerError> {
        let dialled = timeout(CONNECT, dialer.dial()).await;
        let dialled = dialled.map_err(|_| ManagerError::Unanswered("no connection in time".to_owned()))?;
        let stream = dialled.map_err(|error| ManagerError::Unanswered(error.to_string()))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver = async move {
            // The request that waits on it sees the same error.
            let _ = connection.await;
        };
        Ok(OpenConnection { sender, driver: Box::pin(driver) })
    }

    async fn exchange(
        &mut self,
        limits: AnswerLimits,
        mut open: OpenConnection,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ManagerError> {
        let exchange = async {
            let answer = open.sender.send_request(request).await.map_err(broken)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), limits.bytes).collect().await;
            let body = body.map_err(|error| match error.is::<LengthLimitError>() {
                true => ManagerError::TooLarge { most: limits.bytes },
                false => ManagerError::Unanswered(error.to_string()),
            })?;
            Ok((status, body.to_bytes()))
        };
        let driven = async {
            match select(std::pin::pin!(exchange), &mut open.driver).await {
                Either::Left((answered, _)) => answered,
                // The connection has ended; what was read of it may be the whole answer.
                Either::Right(((), exchange)) => exchange.await,
            }
        };
        let answered = timeout(limits.within, driven).await;
        let answer = answered.map_err(|_| ManagerError::Unanswered("no answer in time".to_owned()))??;
        if !open.sender.is_closed() {
            self.open = Some(open);
        }
        Ok(answer)
    }
}

fn broken(error: hyper::Error) -> ManagerError {
    ManagerError::Unanswered(error.to_string())
}
