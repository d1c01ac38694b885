//! An agent that is connected, and comes back by itself.

use super::agent_md::{PublishCondition, PublishedAgentMd, publish_agent_md, unpublish_agent_md};
use super::auth::SessionOptions;
use super::chance::message_id;
use super::connection::dial::GatewayDialer;
use super::connection::{CALL_TIMEOUT, ClientConnection};
use super::error::Error;
use super::events::EventReaders;
use super::events::event_stream::EventStream;
use super::home::LocalAgent;
use super::login::reconnect::{ClientState, Reconnect};
use proto_schemas::requests::message::{Send, SentMessage};
use proto_schemas::{Aid, Request};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// How many calls may wait while there is no connection.
const MAX_WAITING: usize = 256;

/// How often a message is sent, if the connection is lost each time before the answer comes.
const SEND_ATTEMPTS: u32 = 5;

/// An agent with a session. Clones share it; the session ends with the last of them, or with [`Client::close`].
///
/// After a lost connection the client comes back by itself: it waits a little, longer each time, and refreshes its tokens or
/// logs in where that is needed. It stays away only where the protocol says so, for instance because the same device and slot
/// connected elsewhere; then every call fails with the error that ended it.
#[derive(Clone)]
pub struct Client {
    dialer: GatewayDialer,
    agent: Arc<LocalAgent>,
    state: watch::Receiver<ClientState>,
    readers: Arc<EventReaders>,
    waiting: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_when_dropped: Arc<DropGuard>,
}

impl Client {
    /// A client for an agent of this machine. A first connection that fails is not tried again.
    pub async fn connect(
        dialer: GatewayDialer,
        agent: LocalAgent,
        options: SessionOptions,
    ) -> Result<Client, Error> {
        let (readers, agent) = (Arc::new(EventReaders::default()), Arc::new(agent));
        let stop = CancellationToken::new();
        let reconnect = Reconnect {
            dialer: dialer.clone(),
            agent: agent.clone(),
            options,
            readers: readers.clone(),
            stop: stop.clone(),
        };
        let first = Arc::new(reconnect.connect().await?);
        let (tell, state) = watch::channel(ClientState::Connected(first.clone()));
        let tasks = TaskTracker::new();
        tasks.spawn(reconnect.run(first, tell));
        tasks.close();
        Ok(Client {
            dialer,
            agent,
            state,
            readers,
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            tasks,
            _stop_when_dropped: Arc::new(stop.clone().drop_guard()),
            stop,
        })
    }

    /// Who this is.
    pub fn aid(&self) -> &Aid {
        &self.agent.aid
    }

    /// Whether there is a connection, as far as is known. One that is lost is noticed a little later.
    pub fn is_connected(&self) -> bool {
        matches!(*self.state.borrow(), ClientState::Connected(_))
    }

    /// The result of a call that has a type, such as `message::Send`. A call made while there is no connection waits for the next
    /// one; a call whose connection is lost before the answer fails, because nobody knows whether it took effect.
    pub async fn request<R: Request>(&self, request: &R) -> Result<R::Result, Error> {
        self.connection().await?.request(request).await
    }

    /// The result of a call by the name of its method. Otherwise like [`Client::request`].
    pub async fn call(&self, method: &str, params: &Value) -> Result<Value, Error> {
        self.connection().await?.call(method, params).await
    }

    /// Sends a text to another agent.
    pub async fn send_text(&self, to: impl AsRef<str>, text: &str) -> Result<SentMessage, Error> {
        self.send(to, &json!({ "type": "text", "text": text })).await
    }

    /// Sends a payload, which is a JSON object, to another agent. If the connection is lost before the answer comes, the message is
    /// sent again under the same id, so that the other agent gets it once.
    pub async fn send(&self, to: impl AsRef<str>, payload: &Value) -> Result<SentMessage, Error> {
        if !payload.is_object() {
            return Err(Error::Invalid("the payload of a message is a JSON object".to_owned()));
        }
        let to = Aid::parse(to.as_ref())?;
        let payload = to_raw_value(payload).map_err(|error| Error::Invalid(error.to_string()))?;
        let send = Send { message_id: Some(message_id()), ..Send::new(to, payload) };
        let mut attempts = 1;
        loop {
            match self.request(&send).await {
                Err(error) if error.is_disconnect() && error.is_transient() && attempts < SEND_ATTEMPTS => {
                    attempts += 1;
                }
                answer => return answer,
            }
        }
    }

    /// Publishes the agent.md of this agent: YAML front matter and Markdown. It is signed with the agent's key, unless it has a
    /// signature already. The last writer wins; [`publish_agent_md`] takes a condition.
    pub async fn publish_agent_md(&self, content: &str) -> Result<PublishedAgentMd, Error> {
        publish_agent_md(&self.dialer, &self.agent, content, &PublishCondition::Always).await
    }

    /// Removes the agent.md of this agent.
    pub async fn unpublish_agent_md(&self) -> Result<(), Error> {
        unpublish_agent_md(&self.dialer, &self.agent).await
    }

    /// The events from now on. While the connection is lost events are missed; messages are not, with [`Client::messages`].
    pub fn events(&self) -> EventStream {
        EventStream::new(self.readers.subscribe())
    }

    /// Ends the session, for all clones.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }

    pub(crate) fn readers(&self) -> &EventReaders {
        &self.readers
    }

    /// The connection of the moment, or the next one.
    async fn connection(&self) -> Result<Arc<ClientConnection>, Error> {
        if let Some(now) = self.state.borrow().connection() {
            return now;
        }
        let Ok(_waiting) = self.waiting.try_acquire() else { return Err(Error::TooManyCalls(MAX_WAITING)) };
        let mut state = self.state.clone();
        let next = state.wait_for(|state| !matches!(state, ClientState::Disconnected));
        match timeout(CALL_TIMEOUT, next).await {
            Ok(Ok(state)) => state.connection().unwrap_or(Err(Error::ClientClosed)),
            Ok(Err(_)) => Err(Error::ClientClosed),
            Err(_) => Err(Error::Disconnected(format!("the gateway was not back within {CALL_TIMEOUT:?}"))),
        }
    }
}
