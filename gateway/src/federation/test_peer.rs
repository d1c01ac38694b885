//! `gateway.test_peer`: dials another domain step by step, over a link of its own, and reports the step that fails.

use super::Federation;
use super::discovery::PeerGatewayUrl;
use super::errors::{DialPhase, LinkFailure};
use super::outbound::dial::{self, DIAL_TIMEOUT, DialledLink, PeerSocket};
use super::resolve;
use futures_util::{SinkExt as _, StreamExt as _};
use kernel::{Caller, RpcError};
use proto_schemas::requests::gateway::{PeerTest, PeerTestStep, TestPeer};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;

impl Federation {
    pub(super) async fn test_peer(
        self: Arc<Self>,
        _: Caller,
        params: TestPeer,
    ) -> Result<PeerTest, RpcError> {
        let issuer = self.target(&params.issuer)?;
        let mut steps = Vec::new();
        let ok = self.dial_step_by_step(&issuer, &mut steps).await.is_some();
        if ok {
            self.peers.mark_reachable(&issuer);
        }
        Ok(PeerTest { ok, steps })
    }

    /// All steps; ends at the first that fails.
    async fn dial_step_by_step(&self, issuer: &str, steps: &mut Vec<PeerTestStep>) -> Option<()> {
        let _ = timeout_at(Instant::now() + DIAL_TIMEOUT, self.trust.refresh()).await;
        let url = step(steps, "discover", self.test_discovery(issuer)).await?;
        let deadline = Instant::now() + DIAL_TIMEOUT;
        let socket = step(steps, "connect", self.test_connect(issuer, url.clone(), deadline)).await?;
        let deadline = Instant::now() + DIAL_TIMEOUT;
        let link = step(steps, "hello", self.test_hello(issuer, url, socket, deadline)).await?;
        step(steps, "ping", ping(link)).await
    }

    async fn test_discovery(&self, issuer: &str) -> Result<(PeerGatewayUrl, String), LinkFailure> {
        let deadline = Instant::now() + DIAL_TIMEOUT;
        match dial::check_trust(self, issuer, deadline).await {
            Err(failure) if failure.reason == "domain_unknown" => {
                return Err(self.explained(failure, issuer, 443).await);
            }
            checked => checked?,
        }
        let found = timeout_at(deadline, self.peers.discovery.refresh(self, issuer)).await;
        let found =
            found.unwrap_or_else(|_| Err(format!("the discovery of the gateway of {issuer} timed out")));
        let url = found.map(|urls| urls.into_iter().next());
        match url {
            Ok(Some(url)) => Ok((url.clone(), url.to_string())),
            Ok(None) => Err(LinkFailure::new(
                DialPhase::Discover,
                "discovery_failed",
                "its well-known document names no gateway",
            )),
            Err(sentence) => {
                let failure = LinkFailure::new(DialPhase::Discover, "discovery_failed", sentence);
                Err(self.explained(failure, issuer, 443).await)
            }
        }
    }

    /// The operator is told what others are not: where a name leads that may not be dialled.
    async fn explained(&self, failure: LinkFailure, host: &str, port: u16) -> LinkFailure {
        let why = resolve::why_not(&self.config.federation, host, port);
        match timeout_at(Instant::now() + DIAL_TIMEOUT, why).await {
            Ok(Some(sentence)) => LinkFailure { sentence, ..failure },
            Ok(None) | Err(_) => failure,
        }
    }

    async fn test_connect(
        &self,
        issuer: &str,
        url: PeerGatewayUrl,
        deadline: Instant,
    ) -> Result<(PeerSocket, String), LinkFailure> {
        let socket = match dial::connect(self, issuer, &url, deadline).await {
            Ok(socket) => socket,
            Err(failure) => return Err(self.explained(failure, &url.host, url.port).await),
        };
        let at = socket.get_ref().get_ref().0.peer_addr();
        Ok((
            socket,
            at.map_or_else(|_| "TLS established".to_owned(), |at| format!("TLS established with {at}")),
        ))
    }

    async fn test_hello(
        &self,
        issuer: &str,
        url: PeerGatewayUrl,
        socket: PeerSocket,
        deadline: Instant,
    ) -> Result<(DialledLink, String), LinkFailure> {
        let link = dial::authenticate(self, issuer, url, socket, deadline).await?;
        let detail = format!("authenticated as {}", link.peer.gateway_aid);
        Ok((link, detail))
    }
}

/// Takes a step and reports it.
async fn step<T>(
    steps: &mut Vec<PeerTestStep>,
    name: &str,
    work: impl Future<Output = Result<(T, String), LinkFailure>>,
) -> Option<T> {
    let began = Instant::now();
    let done = work.await;
    let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (done, detail) = match done {
        Ok((done, detail)) => (Some(done), detail),
        Err(failure) => (None, failure.sentence),
    };
    steps.push(PeerTestStep { step: name.to_owned(), ok: done.is_some(), detail, elapsed_ms });
    done
}

/// Sends a ping over the link, waits for the pong, and closes it.
async fn ping(mut link: DialledLink) -> Result<((), String), LinkFailure> {
    let silent = || LinkFailure::new(DialPhase::Hello, "silent", "its gateway does not answer a ping");
    let pong = async {
        link.socket.send(Message::Ping(b"aund".as_slice().into())).await.ok()?;
        while let Some(Ok(message)) = link.socket.next().await {
            if matches!(message, Message::Pong(_)) {
                let _ = link.socket.close(None).await;
                return Some(());
            }
        }
        None
    };
    timeout_at(Instant::now() + DIAL_TIMEOUT, pong).await.ok().flatten().ok_or_else(silent)?;
    Ok(((), "the gateway answered a ping".to_owned()))
}
