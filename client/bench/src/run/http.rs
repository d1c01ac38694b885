//! Requests to the API of runs over a connection that stays open. What is measured is written by hand: it costs the load generator
//! as little as it can.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use client::ByteStream;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::agent::{BenchEndpoint, ISSUER};

/// What is read at once, at least.
const PIECE: usize = 4 * 1024;

/// A server closes a connection that was idle for five seconds, as long as a round of the other side takes.
const MOST_IDLE: Duration = Duration::from_secs(1);

/// A connection with one request at a time. After a pause it is another one.
pub(super) struct ApiConnection {
    endpoint: BenchEndpoint,
    stream: Box<dyn ByteStream>,
    received: Vec<u8>,
    used: Instant,
}

/// A whole answer.
pub(super) struct ApiAnswer {
    pub(super) status: u16,
    body: Vec<u8>,
}

/// Where the body of an answer is.
struct ApiAnswerHead {
    status: u16,
    body: usize,
    end: usize,
}

/// A request below `/api/v1`, as it is sent.
pub(super) fn request(verb: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{verb} /api/v1{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
        host()
    )
    .into_bytes()
}

pub(super) fn host() -> String {
    format!("gateway.{ISSUER}")
}

impl ApiConnection {
    pub(super) async fn open(endpoint: &BenchEndpoint) -> anyhow::Result<Self> {
        let stream = endpoint.stream().await?;
        Ok(Self { endpoint: endpoint.clone(), stream, received: Vec::new(), used: Instant::now() })
    }

    /// Sends a request and reads the whole answer, whatever its status is.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<ApiAnswer> {
        if self.used.elapsed() > MOST_IDLE {
            self.stream = self.endpoint.stream().await?;
        }
        self.stream.write_all(request).await?;
        self.received.clear();
        loop {
            self.received.reserve(PIECE);
            let length = self.stream.read_buf(&mut self.received).await?;
            ensure!(length > 0, "the server closed the connection");
            let Some(head) = ApiAnswerHead::read(&self.received)? else { continue };
            if self.received.len() >= head.end {
                let body = self.received[head.body..head.end].to_vec();
                self.used = Instant::now();
                return Ok(ApiAnswer { status: head.status, body });
            }
        }
    }

    /// The data of an answer that accepts the request.
    pub(super) async fn call(
        &mut self,
        verb: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> anyhow::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.ask(&request(verb, path, token, &body)).await?;
        answer.data().with_context(|| format!("{verb} {path} was refused"))
    }
}

impl ApiAnswer {
    pub(super) fn is_accepted(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn data(&self) -> anyhow::Result<Value> {
        if !self.is_accepted() {
            bail!("the server answered {}: {}", self.status, String::from_utf8_lossy(&self.body));
        }
        let mut answer: Value = serde_json::from_slice(&self.body)?;
        Ok(answer["data"].take())
    }
}

impl ApiAnswerHead {
    /// None as long as not all of the head is there.
    fn read(received: &[u8]) -> anyhow::Result<Option<Self>> {
        let Some(length) = received.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let text = str::from_utf8(&received[..length])?;
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("the server answered {text}"))?;
        let of_body = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let body = length + 4;
        let end = body + of_body.with_context(|| format!("the answer has no length: {text}"))?;
        Ok(Some(Self { status, body, end }))
    }
}

/// A member of an answer that is a text.
pub(super) fn text(data: &Value, member: &str) -> anyhow::Result<String> {
    let text = data[member].as_str();
    Ok(text.with_context(|| format!("the answer has no {member}: {data}"))?.to_owned())
}

/// A member of an answer that is a number.
pub(super) fn number(data: &Value, member: &str) -> anyhow::Result<i64> {
    data[member].as_i64().with_context(|| format!("the answer has no {member}: {data}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_all_of_its_body_is_there() {
        let text = b"HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\nhello";
        assert!(ApiAnswerHead::read(&text[..20]).unwrap().is_none());
        let head = ApiAnswerHead::read(text).unwrap().unwrap();
        assert_eq!((head.status, &text[head.body..head.end]), (409, &b"hello"[..]));
        assert!(ApiAnswerHead::read(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "it has no length");
    }
}
