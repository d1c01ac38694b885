//! A gateway announces its connections to the other processes.

use super::AnnouncedSession;
use super::replica::{LEASE, Replica};
use super::updates::{PresenceChange, PresenceUpdate, VERSION};
use crate::Aid;
use crate::redis::{RedisConnection, RedisContext, command};
use redis::{Cmd, RedisResult};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long the list of a gateway that is gone stays in Redis.
const LIST_TTL: Duration = Duration::from_secs(60);
/// Changes announced at once, and connections of a list written at once.
const CHUNK: usize = 256;
/// How long a login waits until the others know of it.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_millis(500);

impl Replica {
    pub fn admit(&self, aid: &Aid, announced: AnnouncedSession) {
        let announced = Arc::new(announced);
        let mut state = self.state.lock();
        self.insert(&mut state, &self.own, aid, announced.clone());
        state.pending.add(PresenceChange::Connected(aid.clone(), announced));
        drop(state);
        self.pending_added.notify_one();
    }

    /// Announced once, however often it is called.
    pub fn leave(&self, aid: &Aid, connection: u64) {
        let mut state = self.state.lock();
        if !state.gateways.get(&self.own).is_some_and(|own| own.connections.contains_key(&connection)) {
            return;
        }
        self.remove(&mut state, &self.own, aid, connection);
        state.pending.add(PresenceChange::Disconnected(aid.clone(), connection));
        drop(state);
        self.pending_added.notify_one();
    }

    pub async fn announced(&self) {
        let version = self.state.lock().pending.version;
        let mut announced = self.announced.subscribe();
        let waiting = announced.wait_for(|announced| *announced >= version);
        let _ = tokio::time::timeout(ANNOUNCE_TIMEOUT, waiting).await;
    }

    /// Announces changes as they come, and a heartbeat every two seconds. Before it ends it removes this gateway.
    pub async fn announce(&self, redis: Arc<RedisContext>, stop: CancellationToken) {
        let mut every = tokio::time::interval(HEARTBEAT);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut connection = redis.connection.changes();
        while !stop.is_cancelled() {
            let heartbeat = tokio::select! {
                () = stop.cancelled() => break,
                () = self.pending_added.notified() => false,
                _ = every.tick() => true,
                _ = connection.changed() => true,
            };
            self.announce_pending(&redis, heartbeat).await;
        }
        self.announce_pending(&redis, false).await;
        if let Some(connection) = redis.connection.now() {
            let _ = self.deregister(&redis, &connection).await;
        }
    }

    async fn announce_pending(&self, redis: &RedisContext, heartbeat: bool) {
        let Some(connection) = redis.connection.now() else { return self.rewrite_later() };
        let announced = async {
            if self.state.lock().pending.rewrite {
                self.rewrite(redis, &connection).await?;
            }
            self.publish_changes(redis, &connection).await?;
            if heartbeat && !self.heartbeat(redis, &connection).await? {
                self.rewrite(redis, &connection).await?;
            }
            Ok(())
        };
        if let Err(error) = announced.await {
            redis.failed(&connection, &error);
            self.rewrite_later();
        }
    }

    /// The whole list will be written when Redis is back. Nobody waits for that.
    fn rewrite_later(&self) {
        let mut state = self.state.lock();
        let pending = &mut state.pending;
        pending.changes.clear();
        pending.rewrite = true;
        self.announced.send_replace(pending.version);
    }

    /// Into the list first, then published: a process that reads the list because of an update finds at least that update
    /// in it.
    async fn publish_changes(&self, redis: &RedisContext, connection: &RedisConnection) -> RedisResult<()> {
        loop {
            let (changes, after) = {
                let mut state = self.state.lock();
                let pending = &mut state.pending;
                let most = pending.changes.len().min(CHUNK);
                let changes: Vec<PresenceChange> = pending.changes.drain(..most).collect();
                (changes, pending.announced)
            };
            if changes.is_empty() {
                return Ok(());
            }
            let version = after + changes.len() as u64;
            let list = redis.keys.sessions(&self.own);
            let mut pipe = redis::pipe();
            for change in &changes {
                pipe.add_command(in_list(&list, change)).ignore();
            }
            pipe.add_command(command("HSET", &list).arg(VERSION).arg(version).take()).ignore();
            pipe.add_command(self.update(redis, connection, after, changes, false)).ignore();
            connection.ask_all::<()>(&pipe).await?;
            self.state.lock().pending.announced = version;
            self.announced.send_replace(version);
        }
    }

    /// Returns whether the list is as it should be: a flushed Redis has none.
    async fn heartbeat(&self, redis: &RedisContext, connection: &RedisConnection) -> RedisResult<bool> {
        let announced = self.state.lock().pending.announced;
        let mut pipe = redis::pipe();
        for command in self.renew_lease(redis) {
            pipe.add_command(command).ignore();
        }
        pipe.add_command(command("HGET", &redis.keys.sessions(&self.own)).arg(VERSION).take());
        pipe.add_command(self.update(redis, connection, announced, Vec::new(), false)).ignore();
        let (version,): (Option<String>,) = connection.ask_all(&pipe).await?;
        Ok(version.is_some_and(|version| version == announced.to_string()))
    }

    /// Writes the whole list. It has no version until it is complete.
    async fn rewrite(&self, redis: &RedisContext, connection: &RedisConnection) -> RedisResult<()> {
        let (connections, version) = {
            let mut state = self.state.lock();
            state.pending.changes.clear();
            state.pending.rewrite = false;
            state.pending.announced = state.pending.version;
            let all =
                state.agents.iter().flat_map(|(aid, known)| known.iter().map(move |known| (aid, known)));
            let own = all.filter(|(_, known)| known.gateway == self.own);
            let connected = own.map(|(aid, known)| (aid.clone(), known.announced.clone()));
            let connections: Vec<PresenceChange> =
                connected.map(|(aid, announced)| PresenceChange::Connected(aid, announced)).collect();
            (connections, state.pending.version)
        };
        let list = redis.keys.sessions(&self.own);
        connection.ask::<()>(&command("DEL", &list)).await?;
        for chunk in connections.chunks(CHUNK) {
            let mut pipe = redis::pipe();
            for change in chunk {
                pipe.add_command(in_list(&list, change)).ignore();
            }
            connection.ask_all::<()>(&pipe).await?;
        }
        let mut pipe = redis::pipe();
        pipe.add_command(command("HSET", &list).arg(VERSION).arg(version).take()).ignore();
        for command in self.renew_lease(redis) {
            pipe.add_command(command).ignore();
        }
        pipe.add_command(self.update(redis, connection, version, Vec::new(), false)).ignore();
        connection.ask_all::<()>(&pipe).await?;
        self.announced.send_replace(version);
        Ok(())
    }

    fn renew_lease(&self, redis: &RedisContext) -> [Cmd; 3] {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let keys = &redis.keys;
        [
            command("SET", &keys.lease(&self.own)).arg(1).arg("PX").arg(ms(LEASE)).take(),
            command("SADD", &keys.gateways).arg(&*self.own).take(),
            command("PEXPIRE", &keys.sessions(&self.own)).arg(ms(LIST_TTL)).take(),
        ]
    }

    async fn deregister(&self, redis: &RedisContext, connection: &RedisConnection) -> RedisResult<()> {
        let keys = &redis.keys;
        let announced = self.state.lock().pending.announced;
        let mut pipe = redis::pipe();
        pipe.add_command(command("DEL", &keys.lease(&self.own)).arg(keys.sessions(&self.own)).take())
            .ignore();
        pipe.add_command(command("SREM", &keys.gateways).arg(&*self.own).take()).ignore();
        pipe.add_command(self.update(redis, connection, announced, Vec::new(), true)).ignore();
        connection.ask_all(&pipe).await
    }

    fn update(
        &self,
        redis: &RedisContext,
        connection: &RedisConnection,
        after: u64,
        changes: Vec<PresenceChange>,
        stops: bool,
    ) -> Cmd {
        let sent_ms = redis.clock.now_ms();
        let update = PresenceUpdate { gateway: self.own.clone(), after, sent_ms, changes, stops };
        let text = serde_json::to_vec(&update).expect("an update is plain data");
        connection.publish(&redis.keys.presence, &text)
    }
}

fn in_list(list: &str, change: &PresenceChange) -> Cmd {
    match change {
        PresenceChange::Connected(aid, announced) => {
            let text = serde_json::to_vec(&(aid, announced)).expect("a session is plain data");
            command("HSET", list).arg(announced.session.connection).arg(text).take()
        }
        PresenceChange::Disconnected(_, connection) => command("HDEL", list).arg(connection).take(),
    }
}
