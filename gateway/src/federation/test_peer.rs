//! `gateway.test_peer`: tries the way to another domain step by step, over a link of its own, and says where it breaks.

use super::Federation;
use super::dial::{self, Linked, PATIENCE, Socket};
use super::trouble::{Failure, Phase};
use super::well_known::Place;
use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use services::kernel::{Caller, RpcError};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;

#[derive(Deserialize)]
pub(super) struct TestPeerParams {
    issuer: String,
}

#[derive(Default, Serialize)]
pub(super) struct Tested {
    ok: bool,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    step: &'static str,
    ok: bool,
    detail: String,
    elapsed_ms: u64,
}

impl Federation {
    pub(super) async fn test_peer(
        self: Arc<Self>,
        _: Caller,
        params: TestPeerParams,
    ) -> Result<Tested, RpcError> {
        let issuer = self.target(&params.issuer)?;
        let mut tested = Tested::default();
        tested.ok = self.walk(&issuer, &mut tested).await.is_some();
        if tested.ok {
            self.peers.is_there(&issuer);
        }
        Ok(tested)
    }

    /// The whole way; ends at the first step that does not work.
    async fn walk(&self, issuer: &str, tested: &mut Tested) -> Option<()> {
        let _ = timeout_at(Instant::now() + PATIENCE, self.trust.refresh()).await;
        let place = tested.step("discover", self.look(issuer)).await?;
        let deadline = Instant::now() + PATIENCE;
        let socket = tested.step("connect", self.reach(issuer, place.clone(), deadline)).await?;
        let deadline = Instant::now() + PATIENCE;
        let linked = tested.step("hello", self.prove(issuer, place, socket, deadline)).await?;
        tested.step("ping", ping(linked)).await
    }

    async fn look(&self, issuer: &str) -> Result<(Place, String), Failure> {
        let found = timeout_at(Instant::now() + PATIENCE, self.peers.discovery.look(self, issuer)).await;
        let found = found.unwrap_or_else(|_| Err(format!("{issuer} did not answer in time")));
        let place = found.map(|places| places.into_iter().next());
        match place {
            Ok(Some(place)) => Ok((place.clone(), place.to_string())),
            Ok(None) => Err(Failure::new(Phase::Discover, "discovery_failed", "no gateway is named")),
            Err(sentence) => Err(Failure::new(Phase::Discover, "discovery_failed", sentence)),
        }
    }

    async fn reach(
        &self,
        issuer: &str,
        place: Place,
        deadline: Instant,
    ) -> Result<(Socket, String), Failure> {
        let socket = dial::connect(self, issuer, &place, deadline).await?;
        let at = socket.get_ref().get_ref().0.peer_addr();
        Ok((socket, at.map_or_else(|_| "TLS is up".to_owned(), |at| format!("TLS is up with {at}"))))
    }

    async fn prove(
        &self,
        issuer: &str,
        place: Place,
        socket: Socket,
        deadline: Instant,
    ) -> Result<(Linked, String), Failure> {
        let linked = dial::greet(self, issuer, place, socket, deadline).await?;
        let detail = format!("{} proved itself", linked.peer.gateway_aid);
        Ok((linked, detail))
    }
}

impl Tested {
    async fn step<T>(
        &mut self,
        step: &'static str,
        work: impl Future<Output = Result<(T, String), Failure>>,
    ) -> Option<T> {
        let began = Instant::now();
        let done = work.await;
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (done, detail) = match done {
            Ok((done, detail)) => (Some(done), detail),
            Err(failure) => (None, failure.sentence),
        };
        self.steps.push(Step { step, ok: done.is_some(), detail, elapsed_ms });
        done
    }
}

/// One question over the link, and close reason.
async fn ping(mut linked: Linked) -> Result<((), String), Failure> {
    let silent = || Failure::new(Phase::Hello, "silent", "its gateway does not answer a ping");
    let ask = async {
        linked.socket.send(Message::Ping(b"aund".as_slice().into())).await.ok()?;
        while let Some(Ok(message)) = linked.socket.next().await {
            if matches!(message, Message::Pong(_)) {
                let _ = linked.socket.close(None).await;
                return Some(());
            }
        }
        None
    };
    timeout_at(Instant::now() + PATIENCE, ask).await.ok().flatten().ok_or_else(silent)?;
    Ok(((), "it answers".to_owned()))
}
