//! One session after another, as long as the protocol allows.

use crate::auth::SessionOptions;
use crate::backoff::pause;
use crate::connection::ClientConnection;
use crate::connection::dial::GatewayDialer;
use crate::error::Error;
use crate::events::{EventReaders, Notice};
use crate::home::LocalAgent;
use crate::login;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Whether there is a connection.
pub(crate) enum ClientState {
    Connected(Arc<ClientConnection>),
    Disconnected,
    /// And there will be no other.
    Ended(Error),
}

/// Everything that the next connection needs.
pub(crate) struct Reconnect {
    pub dialer: GatewayDialer,
    pub agent: Arc<LocalAgent>,
    pub options: SessionOptions,
    pub readers: Arc<EventReaders>,
    pub stop: CancellationToken,
}

impl ClientState {
    /// The connection, or why there will be none; nothing while one is being made.
    pub(crate) fn connection(&self) -> Option<Result<Arc<ClientConnection>, Error>> {
        match self {
            ClientState::Connected(connection) => Some(Ok(connection.clone())),
            ClientState::Disconnected => None,
            ClientState::Ended(error) => Some(Err(error.clone())),
        }
    }
}

impl Reconnect {
    pub(crate) async fn connect(&self) -> Result<ClientConnection, Error> {
        login::open_session(&self.dialer, &self.agent, &self.options, Some(self.readers.clone())).await
    }

    /// Keeps the session until it is stopped or must not come back.
    pub(crate) async fn run(self, first: Arc<ClientConnection>, state: watch::Sender<ClientState>) {
        let error = self.keep_connected(first, &state).await;
        state.send_replace(ClientState::Ended(error.clone()));
        self.readers.publish(&Notice::Ended(error));
    }

    async fn keep_connected(
        &self,
        mut connection: Arc<ClientConnection>,
        state: &watch::Sender<ClientState>,
    ) -> Error {
        loop {
            let lost = tokio::select! {
                lost = connection.ended() => lost,
                () = self.stop.cancelled() => {
                    connection.close().await;
                    return Error::ClientClosed;
                }
            };
            state.send_replace(ClientState::Disconnected);
            connection = match self.come_back(lost).await {
                Ok(next) => Arc::new(next),
                Err(error) => return error,
            };
            state.send_replace(ClientState::Connected(connection.clone()));
            self.readers.publish(&Notice::Connected);
        }
    }

    /// Tries until there is a session again, or an error that no attempt can mend.
    async fn come_back(&self, lost: Error) -> Result<ClientConnection, Error> {
        let (mut error, mut tries) = (lost, 0);
        while error.is_transient() {
            let wait = pause(tries);
            tries += 1;
            self.readers.publish(&Notice::Disconnected(error, wait));
            let attempt = async {
                sleep(wait).await;
                self.connect().await
            };
            error = tokio::select! {
                outcome = attempt => match outcome {
                    Ok(connection) => return Ok(connection),
                    Err(error) => error,
                },
                () = self.stop.cancelled() => return Err(Error::ClientClosed),
            };
        }
        Err(error)
    }
}
