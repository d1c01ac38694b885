//! What this process subscribes to: the channels of the agents that are connected to it, and those for all processes.

use super::RedisBusInner;
use super::publish::{self, BusMessage};
use crate::Aid;
use crate::redis::{PING_EVERY, RedisBackoff, RedisConnection};
use parking_lot::{Mutex, RwLock};
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, RedisResult, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// How long a login waits for its channel.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// Channels subscribed to in one write.
const CHUNK: usize = 512;

type ResyncListener = Box<dyn Fn(Vec<Aid>) + Send + Sync>;

#[derive(Default)]
pub(super) struct Subscriptions {
    channels: Mutex<Channels>,
    changed: Notify,
    resync_listeners: RwLock<Vec<ResyncListener>>,
}

/// What is wanted and what is so. One task makes the second follow the first, so subscribing and unsubscribing cannot
/// overtake each other.
#[derive(Default)]
struct Channels {
    agents: HashMap<Aid, Channel>,
    /// Agents whose channel may have to be subscribed to or unsubscribed from.
    changed: VecDeque<Aid>,
}

#[derive(Default)]
struct Channel {
    sessions: usize,
    subscribed: bool,
    waiting: Vec<oneshot::Sender<()>>,
    /// A session went on without: its events may be missed until the channel is subscribed to.
    late: bool,
}

enum ChannelChange {
    Subscribe,
    Unsubscribe,
}

impl Subscriptions {
    /// One more session of an agent. Returns when its channel is confirmed; while Redis is away, or slow, without that:
    /// the channel is subscribed to when Redis is back, and a resync follows.
    pub async fn add(&self, aid: &Aid, is_up: bool) {
        let confirmed = {
            let mut channels = self.channels.lock();
            let channel = channels.agents.entry(aid.clone()).or_default();
            channel.sessions += 1;
            if channel.subscribed {
                return;
            }
            let (confirm, confirmed) = oneshot::channel();
            channel.waiting.push(confirm);
            channels.changed.push_back(aid.clone());
            confirmed
        };
        self.changed.notify_one();
        if is_up && tokio::time::timeout(CONFIRM_TIMEOUT, confirmed).await.is_ok() {
            return;
        }
        if let Some(channel) = self.channels.lock().agents.get_mut(aid) {
            channel.late = !channel.subscribed;
        }
    }

    pub fn remove(&self, aid: &Aid) {
        let mut channels = self.channels.lock();
        let Some(channel) = channels.agents.get_mut(aid) else { return };
        channel.sessions = channel.sessions.saturating_sub(1);
        if channel.sessions > 0 {
            return;
        }
        channels.changed.push_back(aid.clone());
        drop(channels);
        self.changed.notify_one();
    }

    pub fn on_resync(&self, listener: impl Fn(Vec<Aid>) + Send + Sync + 'static) {
        self.resync_listeners.write().push(Box::new(listener));
    }

    /// For agents whose events may have been missed.
    fn resync(&self, aids: Vec<Aid>) {
        if aids.is_empty() {
            return;
        }
        for listener in self.resync_listeners.read().iter() {
            listener(aids.clone());
        }
    }

    /// Every agent with a session in this process.
    pub fn agents(&self) -> Vec<Aid> {
        let channels = self.channels.lock();
        channels
            .agents
            .iter()
            .filter(|(_, channel)| channel.sessions > 0)
            .map(|(aid, _)| aid.clone())
            .collect()
    }

    /// A new connection has no channels.
    fn reset(&self) {
        let mut channels = self.channels.lock();
        let Channels { agents, changed } = &mut *channels;
        agents.retain(|_, channel| channel.sessions > 0);
        for channel in agents.values_mut() {
            channel.subscribed = false;
        }
        *changed = agents.keys().cloned().collect();
    }

    fn next_changes(&self) -> Vec<(Aid, ChannelChange)> {
        let mut channels = self.channels.lock();
        let Channels { agents, changed } = &mut *channels;
        let mut changes = Vec::new();
        while changes.len() < CHUNK {
            let Some(aid) = changed.pop_front() else { break };
            let Some(channel) = agents.get_mut(&aid) else { continue };
            match (channel.sessions > 0, channel.subscribed) {
                (true, false) => changes.push((aid, ChannelChange::Subscribe)),
                (false, true) => {
                    // Set before the command is sent: a session that comes meanwhile has to subscribe again.
                    channel.subscribed = false;
                    changes.push((aid, ChannelChange::Unsubscribe));
                }
                (false, false) => drop(agents.remove(&aid)),
                (true, true) => {}
            }
        }
        changes
    }

    /// Returns the agents whose sessions did not wait for it.
    fn confirm(&self, changes: Vec<(Aid, ChannelChange)>) -> Vec<Aid> {
        let mut channels = self.channels.lock();
        let Channels { agents, .. } = &mut *channels;
        let mut late = Vec::new();
        for (aid, change) in changes {
            let Some(channel) = agents.get_mut(&aid) else { continue };
            match change {
                ChannelChange::Subscribe => {
                    channel.subscribed = true;
                    for waiting in channel.waiting.drain(..) {
                        let _ = waiting.send(());
                    }
                    if std::mem::take(&mut channel.late) {
                        late.push(aid);
                    }
                }
                ChannelChange::Unsubscribe if channel.sessions == 0 => drop(agents.remove(&aid)),
                ChannelChange::Unsubscribe => {}
            }
        }
        late
    }
}

/// Listens until the process hangs up, on one connection after the other.
pub(super) async fn run(inner: Arc<RedisBusInner>, client: Client, stop: CancellationToken) {
    let mut backoff = RedisBackoff::default();
    while !stop.is_cancelled() {
        match stop.run_until_cancelled(listen(&inner, &client, &mut backoff)).await {
            Some(Err(error)) => backoff.log_once(&error),
            Some(Ok(())) => {}
            None => break,
        }
        inner.redis.counters.subscribed.store(false, Ordering::Relaxed);
        stop.run_until_cancelled(backoff.wait()).await;
    }
}

/// One connection, until it breaks.
async fn listen(inner: &Arc<RedisBusInner>, client: &Client, backoff: &mut RedisBackoff) -> RedisResult<()> {
    let broken = Arc::new(Notify::new());
    let (receiver, over) = (Arc::downgrade(inner), broken.clone());
    let config =
        AsyncConnectionConfig::new().set_push_sender(move |info: PushInfo| match receiver.upgrade() {
            Some(inner) => {
                receive(&inner, info, &over);
                Ok(())
            }
            None => Err(()),
        });
    let RedisBusInner { redis, subscriptions, replica, .. } = &**inner;
    let connection = RedisConnection::connect(client, &redis.settings, config).await?;
    let mut fixed = redis::pipe();
    fixed.add_command(connection.subscribe(&redis.keys.presence)).ignore();
    // Services without a gateway want some of it, too: that a domain can be reached again.
    fixed.add_command(connection.subscribe(&redis.keys.gateway_events)).ignore();
    connection.ask_all::<()>(&fixed).await?;

    subscriptions.reset();
    // Sessions that come from now on wait for their channel; the resync below is for those that came before.
    redis.counters.subscribed.store(true, Ordering::Relaxed);
    apply_changes(inner, &connection).await?;
    backoff.reset();
    replica.resync();
    subscriptions.resync(subscriptions.agents());

    let mut every = tokio::time::interval(PING_EVERY);
    loop {
        tokio::select! {
            () = broken.notified() => return Ok(()),
            () = subscriptions.changed.notified() => apply_changes(inner, &connection).await?,
            _ = every.tick() => connection.ping().await?,
        }
    }
}

/// Subscribes and unsubscribes until everything is as it is wanted.
async fn apply_changes(inner: &RedisBusInner, connection: &RedisConnection) -> RedisResult<()> {
    loop {
        let changes = inner.subscriptions.next_changes();
        if changes.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for (aid, change) in &changes {
            let channel = inner.redis.keys.agent(aid);
            let command = match change {
                ChannelChange::Subscribe => connection.subscribe(&channel),
                ChannelChange::Unsubscribe => connection.unsubscribe(&channel),
            };
            pipe.add_command(command).ignore();
        }
        connection.ask_all::<()>(&pipe).await?;
        inner.subscriptions.resync(inner.subscriptions.confirm(changes));
    }
}

/// Called in the connection's own task, so events keep their order and nothing queues here.
fn receive(inner: &RedisBusInner, info: PushInfo, broken: &Notify) {
    let RedisBusInner { redis, subscriptions, replica, listeners, .. } = inner;
    let payload = match (info.kind, info.data.as_slice()) {
        (PushKind::Disconnection, _) => return broken.notify_one(),
        (
            PushKind::Message | PushKind::SMessage,
            [Value::BulkString(channel), Value::BulkString(payload)],
        ) => {
            if channel == redis.keys.presence.as_bytes() {
                return replica.receive(redis, payload);
            }
            payload
        }
        _ => return,
    };
    match publish::read(&redis.keys.process, payload) {
        Some(BusMessage::Event(event)) => listeners.call(&event),
        Some(BusMessage::Resync) => subscriptions.resync(subscriptions.agents()),
        None => {}
    }
}
