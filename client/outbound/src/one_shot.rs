//! One HTTP request on a connection that is used for nothing else.
//!
//! Who connects, and how long everything may take, is decided by the caller: a webhook, a domain and a gateway are found and verified
//! in different ways. Redirects are not followed.

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, RETRY_AFTER};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// What the head of an answer may have unless the caller wants less: what hyper allows.
pub const HEAD_BYTES: usize = 8192 + 100 * 4096;

/// A request that is ready to be sent, with `Host` and `Connection: close`.
#[derive(Debug)]
pub struct OneShot {
    request: Request<Full<Bytes>>,
    head_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneShotAnswer {
    pub status: StatusCode,
    /// The header `Retry-After`, if it is a text.
    pub retry_after: Option<String>,
    /// Empty if it was not read.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OneShotError {
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
    /// The body was too large, or ended too early.
    #[error("{0}")]
    Body(Box<dyn Error + Send + Sync>),
}

impl OneShot {
    pub fn new(request: Builder, host: &str, body: impl Into<Bytes>) -> Result<OneShot, hyper::http::Error> {
        let request = request.header(HOST, host).header(CONNECTION, "close").body(Full::new(body.into()))?;
        Ok(OneShot { request, head_bytes: HEAD_BYTES })
    }

    pub fn get(path: &str, host: &str) -> Result<OneShot, hyper::http::Error> {
        OneShot::new(Request::get(path), host, Bytes::new())
    }

    #[must_use]
    pub fn with_head_bytes(self, head_bytes: usize) -> OneShot {
        OneShot { head_bytes, ..self }
    }

    /// Sends it. `body_bytes` says for a status how many bytes of the body are accepted; with none, the body is not read.
    pub async fn send<S>(
        self,
        stream: S,
        body_bytes: impl FnOnce(StatusCode) -> Option<usize>,
    ) -> Result<OneShotAnswer, OneShotError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut http = http1::Builder::new();
        http.max_buf_size(self.head_bytes);
        let (mut sender, connection) =
            http.handshake(TokioIo::new(stream)).await.map_err(OneShotError::Broken)?;
        let exchange = async {
            let answer = sender.send_request(self.request).await.map_err(OneShotError::Broken)?;
            let status = answer.status();
            let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = retry_after.map(str::to_owned);
            let body = match body_bytes(status) {
                Some(most) => {
                    Limited::new(answer, most).collect().await.map_err(OneShotError::Body)?.to_bytes()
                }
                None => Bytes::new(),
            };
            Ok(OneShotAnswer { status, retry_after, body })
        };
        // The connection is driven here, beside the exchange, and ends with it.
        match select(pin!(exchange), pin!(connection)).await {
            Either::Left((done, _)) => done,
            Either::Right((_, exchange)) => exchange.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// What the other side received, and what became of its answer. It keeps the connection open.
    async fn exchange(
        request: OneShot,
        answer: &str,
        body_bytes: impl FnOnce(StatusCode) -> Option<usize>,
    ) -> (String, Result<OneShotAnswer, OneShotError>) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let answering = async {
            let mut received = vec![0; 4096];
            let length = theirs.read(&mut received).await.unwrap();
            let _ = theirs.write_all(answer.as_bytes()).await;
            (String::from_utf8_lossy(&received[..length]).into_owned(), theirs)
        };
        let ((received, _open), answered) = tokio::join!(answering, request.send(ours, body_bytes));
        (received, answered)
    }

    fn get() -> OneShot {
        OneShot::get("/x?y=1", "other.example").unwrap()
    }

    #[tokio::test]
    async fn a_request_says_that_it_is_the_only_one() {
        let request =
            OneShot::new(Request::post("/in").header("x-test", "1"), "other.example", "{}").unwrap();
        let answer = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";
        let (received, answered) = exchange(request, answer, |_| Some(2)).await;
        let answered = answered.unwrap();
        assert_eq!((answered.status, answered.body.as_ref()), (StatusCode::CREATED, &b"ok"[..]));
        let received = received.to_ascii_lowercase();
        for part in
            ["post /in http/1.1\r\n", "host: other.example\r\n", "connection: close\r\n", "x-test: 1\r\n"]
        {
            assert!(received.contains(part), "{part} in {received}");
        }
        assert!(received.ends_with("\r\n\r\n{}"), "{received}");
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_only_if_it_is_wanted() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        let (_, whole) = exchange(get(), answer, |_| Some(5)).await;
        assert_eq!(whole.unwrap().body, "hello");
        let (_, large) = exchange(get(), answer, |_| Some(4)).await;
        assert!(matches!(large, Err(OneShotError::Body(_))), "{large:?}");
        // This body never comes: whoever does not read it does not wait for it.
        let endless = "HTTP/1.1 404 Not Found\r\nretry-after: 120\r\ncontent-length: 1000000\r\n\r\n";
        let (_, unread) = exchange(get(), endless, |status| status.is_success().then_some(5)).await;
        let expected = OneShotAnswer {
            status: StatusCode::NOT_FOUND,
            retry_after: Some("120".to_owned()),
            body: Bytes::new(),
        };
        assert_eq!(unread.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_what_is_no_http_is_none() {
        let redirect =
            "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n";
        let (_, answered) = exchange(get(), redirect, |_| None).await;
        assert_eq!(answered.unwrap().status, StatusCode::FOUND);
        let (_, broken) = exchange(get(), "220 mail.example ESMTP\r\n\r\n", |_| None).await;
        assert!(matches!(broken, Err(OneShotError::Broken(_))), "{broken:?}");
    }

    #[tokio::test]
    async fn the_head_of_an_answer_is_limited() {
        let long = format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n", "x".repeat(20_000));
        let (_, refused) = exchange(get().with_head_bytes(8192), &long, |_| None).await;
        assert!(matches!(refused, Err(OneShotError::Broken(_))), "{refused:?}");
        let (_, read) = exchange(get(), &long, |_| None).await;
        assert_eq!(read.unwrap().status, StatusCode::OK);
    }
}
