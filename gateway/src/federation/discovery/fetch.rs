//! Fetches one document of another domain over HTTPS: bounded in time and size, and without following redirects.

use crate::federation::trust::tls;
use crate::federation::{Federation, resolve};
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

/// Why a document could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No answer came: it may work in a moment.
    #[error("{0}")]
    Network(String),
    /// An answer came, and it cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// A TLS connection to a server of this domain, by its host name.
pub async fn open(
    fed: &Federation,
    issuer: &str,
    host: &str,
    port: u16,
) -> Result<TlsStream<TcpStream>, FetchError> {
    let settings = &fed.config.federation;
    let tcp = resolve::connect(settings, host, port)
        .await
        .map_err(|error| FetchError::Network(format!("cannot connect to {host}: {error}")))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| FetchError::Unusable(format!("{host:?} is not a TLS server name")))?;
    let connector = tls::connector(&fed.trust, settings.public_roots, issuer)
        .map_err(|error| FetchError::Network(format!("TLS is not configured: {error}")))?;
    let stream = connector.connect(name, tcp).await;
    stream.map_err(|error| FetchError::Network(format!("TLS with {host}: {error}")))
}

/// `GET https://{host}:{port}{path}`.
pub async fn get(
    fed: &Federation,
    issuer: &str,
    (host, port): (&str, u16),
    path: &str,
    most: usize,
    within: Duration,
) -> Result<Bytes, FetchError> {
    let late = |_| FetchError::Network(format!("{host} did not answer within {} ms", within.as_millis()));
    let fetched = async {
        let stream = open(fed, issuer, host, port).await?;
        request(stream, host, path, most).await
    };
    timeout(within, fetched).await.map_err(late)?
}

async fn request(
    stream: TlsStream<TcpStream>,
    host: &str,
    path: &str,
    most: usize,
) -> Result<Bytes, FetchError> {
    let broke = |error: hyper::Error| FetchError::Network(format!("{host}{path}: {error}"));
    let request = Request::get(path)
        .header(HOST, host)
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| FetchError::Unusable(format!("{host}{path} cannot be requested: {error}")))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broke)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broke)?;
        if response.status() != StatusCode::OK {
            // Also a redirect: a domain answers under its own name.
            return Err(FetchError::Unusable(format!(
                "{host}{path} was answered with {}",
                response.status()
            )));
        }
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| FetchError::Unusable(format!("{host}{path}: {error}")))?;
        Ok(body.to_bytes())
    };
    // The connection is driven here, beside the exchange, and ends with it.
    match select(pin!(exchange), pin!(connection)).await {
        Either::Left((done, _)) => done,
        Either::Right((_, exchange)) => exchange.await,
    }
}
