//! How a process follows what gateways announce: it reads the lists it needs, and checks the leases of silent gateways.

use super::replica::Replica;
use super::updates::{SessionList, VERSION};
use crate::redis::{RedisConnection, RedisContext, command};
use redis::RedisResult;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const CHECK_EVERY: Duration = Duration::from_secs(1);

impl Replica {
    /// Runs until the process hangs up.
    pub async fn follow(self: Arc<Self>, redis: Arc<RedisContext>, stop: CancellationToken) {
        let mut every = tokio::time::interval(CHECK_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.wake.notified() => {}
                _ = every.tick() => {}
            }
            let Some(connection) = redis.connection.now() else { continue };
            if !redis.counters.subscribed.load(Ordering::Relaxed) {
                continue;
            }
            let resync = std::mem::take(&mut self.state.lock().resync);
            if let Err(error) = self.refresh(&redis, &connection, resync).await {
                self.state.lock().resync |= resync;
                redis.failed(&connection, &error);
            }
        }
    }

    async fn refresh(
        &self,
        redis: &RedisContext,
        connection: &RedisConnection,
        resync: bool,
    ) -> RedisResult<()> {
        if resync {
            let names: Vec<String> = connection.ask(&command("SMEMBERS", &redis.keys.gateways)).await?;
            let mut state = self.state.lock();
            let known: Vec<Arc<str>> = state.gateways.keys().cloned().collect();
            let all = names.into_iter().map(Arc::from).chain(known);
            state.unread.extend(all.filter(|name| *name != self.own));
        }
        while let Some(name) = self.next_unread() {
            if let Err(error) = self.read(redis, connection, &name).await {
                self.state.lock().unread.insert(name);
                return Err(error);
            }
        }
        if resync {
            self.synced.send_replace(true);
        }
        for name in self.silent() {
            self.check_lease(redis, connection, &name).await?;
        }
        Ok(())
    }

    fn next_unread(&self) -> Option<Arc<str>> {
        self.state.lock().unread.pop_first()
    }

    /// Reads the list of a gateway, unless its version is the one we have.
    async fn read(
        &self,
        redis: &RedisContext,
        connection: &RedisConnection,
        name: &Arc<str>,
    ) -> RedisResult<()> {
        let list = redis.keys.sessions(name);
        let mut pipe = redis::pipe();
        pipe.add_command(command("EXISTS", &redis.keys.lease(name)));
        pipe.add_command(command("HGET", &list).arg(VERSION).take());
        let (alive, version): (bool, Option<String>) = connection.ask_all(&pipe).await?;
        let version = version.and_then(|version| version.parse().ok());
        let known = self.state.lock().gateways.get(name).and_then(|gateway| gateway.version);
        if !alive || version.is_none() || version == known {
            // Its gateway is gone, or the list is being written, or lost and its gateway will find that out. If it is alive,
            // its next heartbeat has us read it again.
            return Ok(());
        }
        let fields: HashMap<String, Vec<u8>> = connection.ask(&command("HGETALL", &list)).await?;
        if let Some((version, sessions)) = read_list(&fields) {
            self.replace(name, version, sessions);
        }
        Ok(())
    }

    async fn check_lease(
        &self,
        redis: &RedisContext,
        connection: &RedisConnection,
        name: &Arc<str>,
    ) -> RedisResult<()> {
        let alive: bool = connection.ask(&command("EXISTS", &redis.keys.lease(name))).await?;
        if !alive {
            self.remove_gateway(name);
            return connection.ask(command("SREM", &redis.keys.gateways).arg(&**name)).await;
        }
        let mut state = self.state.lock();
        if let Some(gateway) = state.gateways.get_mut(name) {
            gateway.last_update = Instant::now();
            state.unread.insert(name.clone());
        }
        Ok(())
    }
}

/// A list without a version is being written.
fn read_list(fields: &HashMap<String, Vec<u8>>) -> Option<(u64, SessionList)> {
    let version = std::str::from_utf8(fields.get(VERSION)?).ok()?.parse().ok()?;
    let session = |(connection, text): (&String, &Vec<u8>)| {
        Some((connection.parse().ok()?, serde_json::from_slice(text).ok()?))
    };
    Some((version, fields.iter().filter_map(session).collect()))
}
