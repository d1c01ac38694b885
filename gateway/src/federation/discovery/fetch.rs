//! Fetches one document of another domain over HTTPS: bounded in time and size, and without following redirects.

use crate::federation::trust::tls;
use crate::federation::{Federation, resolve};
use bytes::Bytes;
use hyper::header::ACCEPT;
use hyper::{Request, StatusCode};
use outbound::{OneShot, OneShotError};
use rustls::pki_types::ServerName;
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
    let request = OneShot::new(Request::get(path).header(ACCEPT, "application/json"), host, "")
        .map_err(|error| FetchError::Unusable(format!("{host}{path} cannot be requested: {error}")))?;
    let answer = request.send(stream, |status| (status == StatusCode::OK).then_some(most)).await;
    let answer = answer.map_err(|error| match error {
        OneShotError::Broken(error) => FetchError::Network(format!("{host}{path}: {error}")),
        OneShotError::Body(error) => FetchError::Unusable(format!("{host}{path}: {error}")),
    })?;
    match answer.status {
        StatusCode::OK => Ok(answer.body),
        // Also a redirect: a domain answers under its own name.
        status => Err(FetchError::Unusable(format!("{host}{path} was answered with {status}"))),
    }
}
