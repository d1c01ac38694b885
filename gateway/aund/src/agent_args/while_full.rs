//! Calls on short connections, of which an agent has only so many: a command that finds no space waits and tries again where that is
//! safe, and says so in the end.

use super::{AgentArgs, SLOT};
use client::backoff::pause;
use client::{ClientConnection, Error, Home, LocalAgent, SessionKind};
use proto_schemas::codes;
use serde_json::Value;

/// How often a session is tried for while the gateway has no capacity.
const ATTEMPTS: u32 = 6;

impl AgentArgs {
    /// Calls a method on a short connection of its own, and again as [`again_while_full`](Self::again_while_full) does. Only for
    /// calls that are safe to repeat.
    pub async fn call_again_while_full(
        &self,
        home: &Home,
        agent: &LocalAgent,
        method: &str,
        params: &Value,
    ) -> anyhow::Result<Result<Value, Error>> {
        self.again_while_full(home, agent, async |connection: &ClientConnection| {
            connection.call(method, params).await
        })
        .await
    }

    /// Makes calls on a short connection of their own; on another one if that was closed for want of capacity before the answers
    /// came. Two gateways may let in more connections at one moment than an agent may have, and each learns that from the other.
    /// Only for calls that are safe to repeat.
    pub async fn again_while_full<T>(
        &self,
        home: &Home,
        agent: &LocalAgent,
        calls: impl AsyncFn(&ClientConnection) -> Result<T, Error>,
    ) -> anyhow::Result<Result<T, Error>> {
        let mut tries = 0;
        loop {
            let connection = self.connect(home, agent).await?;
            let answer = calls(&connection).await;
            connection.close().await;
            tries += 1;
            match answer {
                Err(error) if is_full(&error) && tries < ATTEMPTS => {
                    tokio::time::sleep(pause(tries - 1)).await
                }
                Err(error) if is_full(&error) => return Err(full(agent, error)),
                answer => return Ok(answer),
            }
        }
    }

    /// Calls any method once. Where the connection was closed for want of capacity before the answer came, nobody knows whether the
    /// call took effect.
    pub async fn call_once(
        &self,
        home: &Home,
        agent: &LocalAgent,
        method: &str,
        params: &Value,
    ) -> anyhow::Result<Result<Value, Error>> {
        let connection = self.connect(home, agent).await?;
        let answer = connection.call(method, params).await;
        connection.close().await;
        match answer {
            Err(error) if is_full(&error) => {
                let sentence = format!("{method} may have taken effect; it was not repeated");
                Err(full(agent, error).context(sentence))
            }
            answer => Ok(answer),
        }
    }

    /// A session of an agent of this machine, for a few calls.
    async fn connect(&self, home: &Home, agent: &LocalAgent) -> anyhow::Result<ClientConnection> {
        let (dialer, options) = self.session(home, agent, SLOT, SessionKind::Short).await?;
        let mut tries = 0;
        loop {
            let connected = client::connect(&dialer, agent, &options).await;
            tries += 1;
            match connected {
                Err(error) if is_full(&error) && tries < ATTEMPTS => {
                    tokio::time::sleep(pause(tries - 1)).await
                }
                Err(error) if is_full(&error) => return Err(full(agent, error)),
                connected => return connected.map_err(|error| self.no_session(home, agent, error)),
            }
        }
    }
}

/// The sentence for it, when the attempts are used up.
fn full(agent: &LocalAgent, error: Error) -> anyhow::Error {
    let sentence = format!("{} has too many commands running: try again when some have ended", agent.aid);
    anyhow::Error::from(error).context(sentence)
}

/// The agent has as many short connections as it may have, and another one ends within a moment.
fn is_full(error: &Error) -> bool {
    let code = match error {
        Error::Closed { code, .. } => Some(i64::from(*code)),
        error => error.code(),
    };
    code == Some(i64::from(codes::SHORT_CAPACITY.code))
}
