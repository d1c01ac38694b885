//! HTTP as clients speak it to us, written out: one request, one connection, the host free to choose.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use certs::Certificate;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::{TestServer, within};

/// Anything a client can talk over.
pub trait TestByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> TestByteStream for T {}

/// A request in the making.
pub struct TestRequest<'a> {
    server: &'a TestServer,
    method: &'a str,
    path: String,
    host: String,
    server_name: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl TestServer {
    /// A request to the gateway host, without TLS.
    pub fn http<'a>(&'a self, method: &'a str, path: &str) -> TestRequest<'a> {
        TestRequest {
            server: self,
            method,
            path: path.to_owned(),
            host: format!("gateway.{}", self.issuer),
            server_name: None,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        self.http("GET", path).send().await
    }

    /// The server's own count of something: the sum of the samples whose line begins like this.
    pub async fn metric(&self, begins: &str) -> f64 {
        self.assert_own();
        sum(&self.metrics().await, begins)
    }

    /// The same count of one process that shows its metrics at this address.
    pub async fn metric_of(&self, address: &str, begins: &str) -> f64 {
        self.assert_own();
        sum(&metrics_at(address).await, begins)
    }

    /// The sum of a count over all processes, those without a gateway among them.
    pub async fn metric_of_all(&self, begins: &str) -> f64 {
        let mut all = self.metric(begins).await;
        for process in &self.services {
            all += self.metric_of(process, begins).await;
        }
        all
    }

    /// Where each gateway shows its metrics, if the server is several processes.
    pub fn status_of_gateways(&self) -> &[String] {
        &self.gateways
    }

    /// The metrics of the server as its operator gets them, of all its gateways if it has several.
    pub async fn metrics(&self) -> String {
        if self.gateways.is_empty() {
            return metrics_in(&self.data()).await;
        }
        let mut text = String::new();
        for address in &self.gateways {
            text += &metrics_at(address).await;
        }
        text
    }

    /// A connection without TLS.
    pub async fn tcp(&self) -> TcpStream {
        self.dial(self.plain_port).await.expect("the server accepts connections")
    }

    /// A connection to one of its ports, from the address that is this test's.
    async fn dial(&self, port: u16) -> std::io::Result<TcpStream> {
        within("a connection", self.client_socket().connect((self.host(), port).into())).await
    }

    pub(super) fn client_socket(&self) -> TcpSocket {
        let socket = TcpSocket::new_v4().expect("a socket");
        if let Some(share) = &self.share {
            socket.bind((share.source, 0).into()).expect("an address of the loopback network");
        }
        socket
    }

    /// A connection with TLS to this name, by a client that trusts the server's root.
    pub async fn tls(&self, name: &str) -> std::io::Result<Box<dyn TestByteStream>> {
        self.tls_trusting(&self.root(), name).await
    }

    /// A connection with TLS to this name, by a client that trusts one root and nobody else.
    pub async fn tls_trusting(
        &self,
        root: &Certificate,
        name: &str,
    ) -> std::io::Result<Box<dyn TestByteStream>> {
        tls_over(self.dial(self.tls_port).await?, root, name).await
    }
}

/// TLS to this name on a connection, by a client that trusts one root and nobody else.
pub async fn tls_over(
    stream: TcpStream,
    root: &Certificate,
    name: &str,
) -> std::io::Result<Box<dyn TestByteStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(root.der().to_vec())).expect("a root can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name for TLS");
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    Ok(Box::new(within("a TLS handshake", handshake).await?))
}

/// Asks over the socket in the data folder of a server.
async fn metrics_in(data: &Path) -> String {
    let dial = within("a connection", UnixStream::connect(data.join("aund.sock"))).await;
    let mut stream = dial.expect("the server answers its operator");
    stream.write_all(b"{\"method\":\"metrics\"}\n").await.expect("it listens");
    let mut answer = String::new();
    let read = within("metrics", BufReader::new(stream).read_line(&mut answer)).await;
    read.expect("a whole answer");
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    answer["result"].as_str().expect("metrics are text").to_owned()
}

async fn metrics_at(address: &str) -> String {
    let dial = within("a connection", TcpStream::connect(address)).await;
    let mut stream = dial.expect("a process shows its metrics");
    let ask = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(ask).await.expect("it listens");
    let mut bytes = Vec::new();
    within("metrics", stream.read_to_end(&mut bytes)).await.expect("a whole answer");
    TestResponse::parse(&bytes, false).text()
}

fn sum(metrics: &str, begins: &str) -> f64 {
    let samples = metrics.lines().filter(|line| line.starts_with(begins));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

impl TestRequest<'_> {
    pub fn host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    /// Over TLS, to a server of this name; `Host` may say something else.
    pub fn over_tls(mut self, server_name: &str) -> Self {
        self.server_name = Some(server_name.to_owned());
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub async fn send(self) -> TestResponse {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.path, self.host);
        if !self.headers.iter().any(|(name, _)| name == "Connection") {
            head.push_str("Connection: close\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == "PUT" {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut stream: Box<dyn TestByteStream> = match &self.server_name {
            Some(name) => self.server.tls(name).await.expect("the server's certificate can be trusted"),
            None => Box::new(self.server.tcp().await),
        };
        // A server that refuses a body early may close while we still write; what it said is what counts.
        let _ = stream.write_all(&[head.as_bytes(), &self.body].concat()).await;
        let mut bytes = Vec::new();
        let read = within("an HTTP answer", stream.read_to_end(&mut bytes)).await;
        assert!(read.is_ok() || !bytes.is_empty(), "{} {}: {read:?}", self.method, self.path);
        TestResponse::parse(&bytes, self.method == "HEAD")
    }
}

impl TestResponse {
    fn parse(bytes: &[u8], head_only: bool) -> TestResponse {
        let end = find(bytes, b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no HTTP answer in {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status line");
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let rest = &bytes[end + 4..];
        let body = match headers.get("transfer-encoding").map(String::as_str) {
            Some("chunked") => unchunk(rest),
            _ => rest.to_vec(),
        };
        let length = headers.get("content-length").and_then(|length| length.parse::<usize>().ok());
        if head_only {
            assert!(body.is_empty(), "an answer to HEAD has no body");
        } else if let Some(length) = length {
            assert_eq!(body.len(), length, "the whole body arrived");
        }
        TestResponse { status, headers, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is text")
    }

    pub fn json(&self) -> Value {
        let kind = self.header("content-type").unwrap_or_default();
        assert!(
            kind.starts_with("application/json"),
            "JSON is labelled as JSON, not {kind:?}: {}",
            self.text()
        );
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = find(rest, b"\r\n") {
        let digits = String::from_utf8_lossy(&rest[..end]);
        let length = usize::from_str_radix(digits.trim(), 16).expect("a chunk has a length");
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 2 + length + 2..];
    }
    panic!("the last chunk is missing")
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
