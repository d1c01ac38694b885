//! One document of another domain, over TLS: bounded in time and size, and never from where a redirect points.

use super::{Federation, resolve, tls};
use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::pin::pin;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// Why a document is not there.
#[derive(Debug, thiserror::Error)]
pub enum Absent {
    /// Nobody could be asked: it may work in a moment.
    #[error("{0}")]
    Network(String),
    /// There was an answer, and it is of no use.
    #[error("{0}")]
    Answer(String),
}

/// A TLS connection to a server of this domain, by its name.
pub async fn open(
    fed: &Federation,
    issuer: &str,
    host: &str,
    port: u16,
) -> Result<TlsStream<TcpStream>, Absent> {
    let settings = &fed.config.federation;
    let tcp = resolve::connect(&settings.resolve, host, port)
        .await
        .map_err(|error| Absent::Network(format!("{host} is not reached: {error}")))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Absent::Answer(format!("{host:?} is no name for TLS")))?;
    let connector = tls::connector(&fed.trust, settings.public_roots, issuer)
        .map_err(|error| Absent::Network(format!("TLS is not possible: {error}")))?;
    let stream = connector.connect(name, tcp).await;
    stream.map_err(|error| Absent::Network(format!("TLS with {host}: {error}")))
}

/// `GET https://{host}:{port}{path}`.
pub async fn get(
    fed: &Federation,
    issuer: &str,
    (host, port): (&str, u16),
    path: &str,
    most: usize,
    within: Duration,
) -> Result<Bytes, Absent> {
    let late = |_| Absent::Network(format!("{host} did not answer within {} ms", within.as_millis()));
    let ask = async {
        let stream = open(fed, issuer, host, port).await?;
        ask(stream, host, path, most).await
    };
    timeout(within, ask).await.map_err(late)?
}

async fn ask(stream: TlsStream<TcpStream>, host: &str, path: &str, most: usize) -> Result<Bytes, Absent> {
    let broke = |error: hyper::Error| Absent::Network(format!("{host}{path}: {error}"));
    let request = Request::get(path)
        .header(HOST, host)
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| Absent::Answer(format!("{host}{path} cannot be asked for: {error}")))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broke)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broke)?;
        if response.status() != StatusCode::OK {
            // A redirect is one of those: whoever wants to be found says so at its own name.
            return Err(Absent::Answer(format!("{host}{path} was answered with {}", response.status())));
        }
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| Absent::Answer(format!("{host}{path}: {error}")))?;
        Ok(body.to_bytes())
    };
    // The connection is driven here, beside the exchange, and ends with it.
    match select(pin!(exchange), pin!(connection)).await {
        Either::Left((done, _)) => done,
        Either::Right((_, exchange)) => exchange.await,
    }
}
