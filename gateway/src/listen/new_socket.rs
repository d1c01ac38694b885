//! From an accepted connection to the first byte of HTTP: whose it is, and TLS.

use super::{AcceptedSocket, proxied, reason, serve};
use crate::admission::SocketPermit;
use crate::gateway::GatewayState;
use crate::shared_limits::HandshakeSlot;
use kernel::EvictionSignal;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

/// A socket that has been accepted, before its handshake.
pub(super) struct NewSocket {
    pub gateway: Arc<GatewayState>,
    pub stream: TcpStream,
    pub tls: Option<TlsAcceptor>,
    /// Says that the socket has to be closed, because others need what it holds.
    pub signal: Arc<EvictionSignal>,
    /// For the PROXY header and TLS.
    pub deadline: Instant,
}

impl NewSocket {
    /// Reads whose connection it is, and serves that client. Until then it has a handshake of the balancer and nothing else that is
    /// counted by address, because all clients of the balancer would share that.
    pub async fn serve_proxied(
        mut self,
        balancer: IpAddr,
        permit: OwnedSemaphorePermit,
        handshake: HandshakeSlot,
    ) {
        let signal = self.signal.clone();
        let client = tokio::select! {
            client = self.client_behind(balancer, &handshake) => client,
            () = signal.evicted() => return self.gateway.metrics.refused("handshakes"),
        };
        drop(handshake);
        let Some(client) = client else { return };
        match self.gateway.admission.limits.admit_client(permit, client, &self.signal) {
            Ok(admitted) => self.serve_client(client, admitted).await,
            Err(limit) => self.gateway.metrics.refused(reason(limit)),
        }
    }

    async fn client_behind(&mut self, balancer: IpAddr, handshake: &HandshakeSlot) -> Option<IpAddr> {
        if !self.speaks().await {
            return None;
        }
        handshake.spoke();
        let reading = Box::pin(proxied::client_address(&mut self.stream, balancer));
        let read = timeout_at(self.deadline, reading);
        let client = self.gateway.stop.run_until_cancelled(read).await?.ok()?.ok()?;
        if client.is_none() {
            self.gateway.metrics.refused("proxy_header");
        }
        client
    }

    /// Serves a client that was counted.
    pub async fn serve_client(self, address: IpAddr, (permit, handshake): (SocketPermit, HandshakeSlot)) {
        let accepted = Arc::new(AcceptedSocket {
            gateway: self.gateway.clone(),
            address,
            permit: Mutex::new(Some(permit)),
            handshake: Mutex::new(Some(handshake)),
            signal: self.signal.clone(),
        });
        tokio::select! {
            () = self.handshake_and_serve(accepted.clone()) => {}
            () = accepted.signal.evicted() => {
                let in_handshake = accepted.handshake.lock().is_some();
                accepted.gateway.metrics.refused(if in_handshake { "handshakes" } else { "http_unread" });
            }
        }
    }

    /// A handshake that fails or stalls is not logged: the address is counted, the socket is closed.
    async fn handshake_and_serve(self, accepted: Arc<AcceptedSocket>) {
        if !self.speaks().await {
            return;
        }
        if let Some(handshake) = &*accepted.handshake.lock() {
            handshake.spoke();
        }
        let limit = Duration::from_millis(self.gateway.config.limits.handshake_timeout_ms);
        match self.tls {
            None => serve(accepted, self.stream, limit).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = timeout_at(self.deadline, tls.accept(self.stream)).await {
                    serve(accepted, stream, limit).await;
                }
            }
        }
    }

    /// Waits until something was received; false if the deadline or the end of the socket came first.
    ///
    /// As long as it is silent, a socket has neither buffers nor the state of a handshake. That it is readable says nothing yet: the
    /// runtime may say so of a socket that has sent nothing.
    async fn speaks(&self) -> bool {
        let mut first = [0];
        let received = timeout_at(self.deadline, self.stream.peek(&mut first));
        matches!(self.gateway.stop.run_until_cancelled(received).await, Some(Ok(Ok(1))))
    }
}
