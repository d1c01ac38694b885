//! A connection to Redis that is made again when it breaks.

use super::RedisSettings;
use crate::Backoff;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a connection may take to be made, and Redis to answer on it. Past that it counts as lost.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a quiet connection is asked whether it is still there.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(2);
/// Waits between attempts to connect: short enough that everything is right again ten seconds after Redis is back.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A connection that works, as far as anyone knows.
#[derive(Clone)]
pub(crate) struct RedisConnection {
    /// Counts the connections that were made one after the other, from one on.
    pub generation: u64,
    connection: MultiplexedConnection,
    sharded: bool,
}

impl RedisConnection {
    pub async fn connect(
        client: &Client,
        settings: &RedisSettings,
        config: AsyncConnectionConfig,
    ) -> RedisResult<RedisConnection> {
        let config =
            config.set_connection_timeout(Some(CONNECT_TIMEOUT)).set_response_timeout(Some(ANSWER_TIMEOUT));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let sharded = match settings.sharded {
            Some(sharded) => sharded,
            None => is_sharded(&mut connection).await?,
        };
        Ok(RedisConnection { generation: 0, connection, sharded })
    }

    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query_async(&mut self.connection.clone()).await
    }

    /// Many commands, one write, and all their answers.
    pub async fn ask_all<T: FromRedisValue>(&self, commands: &Pipeline) -> RedisResult<T> {
        commands.query_async(&mut self.connection.clone()).await
    }

    pub fn publish(&self, channel: &str, payload: &[u8]) -> Cmd {
        command(if self.sharded { "SPUBLISH" } else { "PUBLISH" }, channel).arg(payload).take()
    }

    /// One channel a command: each is confirmed once, so a pipeline of them has as many answers as commands.
    pub fn subscribe(&self, channel: &str) -> Cmd {
        command(if self.sharded { "SSUBSCRIBE" } else { "SUBSCRIBE" }, channel)
    }

    pub fn unsubscribe(&self, channel: &str) -> Cmd {
        command(if self.sharded { "SUNSUBSCRIBE" } else { "UNSUBSCRIBE" }, channel)
    }

    pub async fn ping(&self) -> RedisResult<()> {
        self.ask(&redis::cmd("PING")).await
    }
}

pub(crate) fn command(name: &'static str, key: &str) -> Cmd {
    redis::cmd(name).arg(key).take()
}

/// Sharded publish/subscribe came with version 7. All processes ask the same server, so all of them agree.
async fn is_sharded(connection: &mut MultiplexedConnection) -> RedisResult<bool> {
    let about: String = redis::cmd("INFO").arg("server").query_async(connection).await?;
    let version = about.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    Ok(major.is_some_and(|major| major >= 7))
}

/// The connection that this process sends its commands on. One task makes it again when it breaks.
pub(crate) struct SharedConnection {
    current: watch::Sender<Option<RedisConnection>>,
    /// The last generation that was found broken.
    broken: watch::Sender<u64>,
}

impl SharedConnection {
    pub fn new() -> SharedConnection {
        SharedConnection { current: watch::Sender::new(None), broken: watch::Sender::new(0) }
    }

    /// The connection, if there is one right now.
    pub fn now(&self) -> Option<RedisConnection> {
        self.current.borrow().clone()
    }

    /// Wakes when a connection was made or lost.
    pub fn changes(&self) -> watch::Receiver<Option<RedisConnection>> {
        self.current.subscribe()
    }

    /// The connection as soon as there is one; after one that broke, the next.
    pub async fn after(&self, generation: u64) -> RedisConnection {
        let mut current = self.current.subscribe();
        loop {
            let next = current.borrow_and_update().clone();
            if let Some(next) = next.filter(|next| next.generation > generation) {
                return next;
            }
            if current.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Reports a broken connection: only the first report of each has it made again and is logged.
    pub fn lost(&self, connection: &RedisConnection, error: &RedisError) {
        let is_first = self.broken.send_if_modified(|broken| {
            let is_first = *broken < connection.generation;
            *broken = (*broken).max(connection.generation);
            is_first
        });
        if is_first {
            tracing::warn!(%error, "Redis does not answer; reconnecting");
        }
    }

    pub async fn keep(&self, client: &Client, settings: &RedisSettings, stop: &CancellationToken) {
        let (mut generation, mut backoff) = (0, RedisBackoff::default());
        while !stop.is_cancelled() {
            match RedisConnection::connect(client, settings, AsyncConnectionConfig::new()).await {
                Ok(connection) => {
                    generation += 1;
                    backoff.reset();
                    self.share(RedisConnection { generation, ..connection }, stop).await;
                }
                Err(error) => backoff.log_once(&error),
            }
            stop.run_until_cancelled(backoff.wait()).await;
        }
    }

    /// Everybody uses the connection until it breaks.
    async fn share(&self, connection: RedisConnection, stop: &CancellationToken) {
        let mut broken = self.broken.subscribe();
        self.current.send_replace(Some(connection.clone()));
        let mut every = tokio::time::interval(PING_EVERY);
        while *broken.borrow_and_update() < connection.generation {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = broken.changed() => {}
                _ = every.tick() => if let Err(error) = connection.ping().await { self.lost(&connection, &error) },
            }
        }
        self.current.send_replace(None);
    }
}

/// Waits between attempts to connect, and logs once for each time that Redis goes away.
pub(crate) struct RedisBackoff {
    backoff: Backoff,
    logged: bool,
}

impl Default for RedisBackoff {
    fn default() -> RedisBackoff {
        RedisBackoff { backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT), logged: false }
    }
}

impl RedisBackoff {
    pub fn reset(&mut self) {
        self.backoff.reset();
        self.logged = false;
    }

    pub fn log_once(&mut self, error: &RedisError) {
        if !std::mem::replace(&mut self.logged, true) {
            tracing::warn!(%error, "Redis is not available: events stay inside their process until it is");
        }
    }

    pub async fn wait(&mut self) {
        self.backoff.wait().await;
    }
}
