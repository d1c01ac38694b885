//! A connection to Redis that comes back by itself.

use super::Settings;
use crate::kernel::Ids;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a connection may take to be made, and Redis to answer on it. Past that it counts as lost.
const DIAL: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(2);
/// How often a quiet connection is asked whether it is still there.
pub(super) const PING: Duration = Duration::from_secs(2);
/// Waits between dials: short enough that everything has healed ten seconds after Redis is back.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A connection that works, as far as anyone knows.
#[derive(Clone)]
pub(in crate::kernel) struct Live {
    /// Each connection of a line has the next one, from one on.
    pub number: u64,
    connection: MultiplexedConnection,
    sharded: bool,
}

impl Live {
    pub async fn dial(
        client: &Client,
        settings: &Settings,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Live> {
        let config = config.set_connection_timeout(Some(DIAL)).set_response_timeout(Some(ANSWER));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let sharded = match settings.sharded {
            Some(sharded) => sharded,
            None => is_sharded(&mut connection).await?,
        };
        Ok(Live { number: 0, connection, sharded })
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

pub(in crate::kernel) fn command(name: &'static str, key: &str) -> Cmd {
    redis::cmd(name).arg(key).take()
}

/// Sharded publish/subscribe came with version 7. All processes ask the same server, so all of them agree.
async fn is_sharded(connection: &mut MultiplexedConnection) -> RedisResult<bool> {
    let about: String = redis::cmd("INFO").arg("server").query_async(connection).await?;
    let version = about.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    Ok(major.is_some_and(|major| major >= 7))
}

/// The connection everybody in this process talks on. One task keeps it; the others take it as it is now.
pub(in crate::kernel) struct Line {
    live: watch::Sender<Option<Live>>,
    broken: watch::Sender<u64>,
}

impl Line {
    pub fn new() -> Line {
        Line { live: watch::Sender::new(None), broken: watch::Sender::new(0) }
    }

    /// The connection, if there is one right now.
    pub fn now(&self) -> Option<Live> {
        self.live.borrow().clone()
    }

    /// Tells when a connection comes and goes.
    pub fn changes(&self) -> watch::Receiver<Option<Live>> {
        self.live.subscribe()
    }

    /// The connection as soon as there is one; after one that broke, the next.
    pub async fn after(&self, number: u64) -> Live {
        let mut live = self.live.subscribe();
        loop {
            if let Some(live) = live.borrow_and_update().clone().filter(|live| live.number > number) {
                return live;
            }
            if live.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whoever finds a connection broken says so; only the first to say it of one connection has it dialled again.
    pub fn lost(&self, live: &Live, error: &RedisError) {
        let news = self.broken.send_if_modified(|broken| {
            let news = *broken < live.number;
            *broken = (*broken).max(live.number);
            news
        });
        if news {
            tracing::warn!(%error, "Redis did not answer, dialling again");
        }
    }

    pub async fn keep(self: Arc<Self>, client: Client, settings: Arc<Settings>, stop: CancellationToken) {
        let (mut number, mut backoff) = (0, Backoff::default());
        while !stop.is_cancelled() {
            match Live::dial(&client, &settings, AsyncConnectionConfig::new()).await {
                Ok(live) => {
                    number += 1;
                    backoff.reset();
                    self.serve(Live { number, ..live }, &stop).await;
                }
                Err(error) => backoff.complain(&error),
            }
            stop.run_until_cancelled(backoff.wait()).await;
        }
    }

    /// Lends the connection to everybody until it breaks.
    async fn serve(&self, live: Live, stop: &CancellationToken) {
        let mut broken = self.broken.subscribe();
        self.live.send_replace(Some(live.clone()));
        let mut every = tokio::time::interval(PING);
        while *broken.borrow_and_update() < live.number {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = broken.changed() => {}
                _ = every.tick() => if let Err(error) = live.ping().await { self.lost(&live, &error) },
            }
        }
        self.live.send_replace(None);
    }
}

/// How long to wait before the next dial: longer each time, and never the same for two processes.
pub(super) struct Backoff {
    wait: Duration,
    silent: bool,
    ids: Ids,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { wait: FIRST_WAIT, silent: false, ids: Ids::default() }
    }
}

impl Backoff {
    pub fn reset(&mut self) {
        (self.wait, self.silent) = (FIRST_WAIT, false);
    }

    /// Said once for each time that Redis goes away.
    pub fn complain(&mut self, error: &RedisError) {
        if !std::mem::replace(&mut self.silent, true) {
            tracing::warn!(%error, "Redis is away: events stay in their process until it is back");
        }
    }

    pub async fn wait(&mut self) {
        let [chance] = self.ids.bytes::<1>();
        let half = self.wait / 2;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        tokio::time::sleep(half + half * u32::from(chance) / 255).await;
    }
}
