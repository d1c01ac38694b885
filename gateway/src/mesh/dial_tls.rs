//! Dials a process of the mesh: TCP, and TLS in which both sides show who they are.

use super::MeshContext;
use super::identity::{self, MeshIdentity, server_name};
use super::socket::{self, BufferedTcp};
use crate::config;
use anyhow::Context as _;
use rustls::pki_types::ServerName;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The stream, and when the first of the two certificates behind it expires. Without a protocol it is for a WebSocket.
pub(super) async fn dial_tls(
    context: &MeshContext,
    service: &str,
    url: &str,
    protocol: Option<&[u8]>,
) -> anyhow::Result<(TlsStream<BufferedTcp>, i64)> {
    let own = MeshIdentity::read(&context.settings)?;
    let own_not_after = own.not_after();
    let stream = TcpStream::connect(config::mesh_address(url)?).await.context("connection refused")?;
    let stream = socket::buffered(stream)?;
    let name = ServerName::try_from(server_name(service))?;
    let stream = own.connector(protocol)?.connect(name, stream).await.context("TLS")?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let not_after = certificate.map_or(0, identity::not_after).min(own_not_after);
    Ok((stream, not_after))
}
