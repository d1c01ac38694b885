//! What this process listens to: the channels of the agents that are connected to it, and those for all processes.

use super::Inner;
use super::line::{Backoff, Live, PING};
use super::publish::{self, Heard};
use crate::kernel::Aid;
use parking_lot::{Mutex, RwLock};
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, RedisResult, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// How long a login waits for its channel.
const CONFIRM: Duration = Duration::from_secs(1);
/// Channels subscribed to in one write.
const CHUNK: usize = 512;

type ResyncListener = Box<dyn Fn(Vec<Aid>) + Send + Sync>;

#[derive(Default)]
pub(super) struct Ears {
    channels: Mutex<Channels>,
    changed: Notify,
    gaps: RwLock<Vec<ResyncListener>>,
}

/// What is wanted and what is so. One task makes the second follow the first, so opening and closing cannot overtake each
/// other.
#[derive(Default)]
struct Channels {
    agents: HashMap<Aid, Channel>,
    /// Agents whose channel may have to be subscribed to or left.
    changed: VecDeque<Aid>,
}

#[derive(Default)]
struct Channel {
    sessions: usize,
    subscribed: bool,
    waiting: Vec<oneshot::Sender<()>>,
    /// Somebody went on without: bells may have been missed until it is subscribed.
    late: bool,
}

enum Turn {
    Subscribe,
    Leave,
}

impl Ears {
    /// One more session of an agent. Returns when its channel is confirmed; while Redis is away, or slow, without that:
    /// the channel is remembered, and its sessions are looked after when it is back.
    pub async fn want(&self, aid: &Aid, is_up: bool) {
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
        if is_up && tokio::time::timeout(CONFIRM, confirmed).await.is_ok() {
            return;
        }
        if let Some(channel) = self.channels.lock().agents.get_mut(aid) {
            channel.late = !channel.subscribed;
        }
    }

    pub fn leave(&self, aid: &Aid) {
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
        self.gaps.write().push(Box::new(listener));
    }

    /// Everybody whose bells may have been missed.
    fn tell_resync(&self, aids: Vec<Aid>) {
        if aids.is_empty() {
            return;
        }
        for listener in self.gaps.read().iter() {
            listener(aids.clone());
        }
    }

    pub fn everybody(&self) -> Vec<Aid> {
        let channels = self.channels.lock();
        channels
            .agents
            .iter()
            .filter(|(_, channel)| channel.sessions > 0)
            .map(|(aid, _)| aid.clone())
            .collect()
    }

    /// A new connection knows no channels.
    fn start_again(&self) {
        let mut channels = self.channels.lock();
        let Channels { agents, changed } = &mut *channels;
        agents.retain(|_, channel| channel.sessions > 0);
        for channel in agents.values_mut() {
            channel.subscribed = false;
        }
        *changed = agents.keys().cloned().collect();
    }

    fn turns(&self) -> Vec<(Aid, Turn)> {
        let mut channels = self.channels.lock();
        let Channels { agents, changed } = &mut *channels;
        let mut turns = Vec::new();
        while turns.len() < CHUNK {
            let Some(aid) = changed.pop_front() else { break };
            let Some(channel) = agents.get_mut(&aid) else { continue };
            match (channel.sessions > 0, channel.subscribed) {
                (true, false) => turns.push((aid, Turn::Subscribe)),
                (false, true) => {
                    // From now on: a session that comes meanwhile has to subscribe again.
                    channel.subscribed = false;
                    turns.push((aid, Turn::Leave));
                }
                (false, false) => drop(agents.remove(&aid)),
                (true, true) => {}
            }
        }
        turns
    }

    /// Gives the agents whose sessions did not wait for it.
    fn done(&self, turns: Vec<(Aid, Turn)>) -> Vec<Aid> {
        let mut channels = self.channels.lock();
        let Channels { agents, .. } = &mut *channels;
        let mut late = Vec::new();
        for (aid, turn) in turns {
            let Some(channel) = agents.get_mut(&aid) else { continue };
            match turn {
                Turn::Subscribe => {
                    channel.subscribed = true;
                    for waiting in channel.waiting.drain(..) {
                        let _ = waiting.send(());
                    }
                    if std::mem::take(&mut channel.late) {
                        late.push(aid);
                    }
                }
                Turn::Leave if channel.sessions == 0 => drop(agents.remove(&aid)),
                Turn::Leave => {}
            }
        }
        late
    }
}

/// Listens until the process hangs up, on one connection after the other.
pub(super) async fn run(inner: Arc<Inner>, client: Client, stop: CancellationToken) {
    let mut backoff = Backoff::default();
    while !stop.is_cancelled() {
        match stop.run_until_cancelled(listen(&inner, &client, &mut backoff)).await {
            Some(Err(error)) => backoff.complain(&error),
            Some(Ok(())) => {}
            None => break,
        }
        inner.stats.up.store(false, Ordering::Relaxed);
        stop.run_until_cancelled(backoff.wait()).await;
    }
}

/// One connection, until it breaks.
async fn listen(inner: &Arc<Inner>, client: &Client, backoff: &mut Backoff) -> RedisResult<()> {
    let cut = Arc::new(Notify::new());
    let (heard, over) = (Arc::downgrade(inner), cut.clone());
    let config = AsyncConnectionConfig::new().set_push_sender(move |info: PushInfo| match heard.upgrade() {
        Some(inner) => {
            hear(&inner, info, &over);
            Ok(())
        }
        None => Err(()),
    });
    let live = Live::dial(client, &inner.settings, config).await?;
    let mut fixed = redis::pipe();
    fixed.add_command(live.subscribe(&inner.names.presence)).ignore();
    // Services without a gateway want to know some of it, too: that a domain can be reached again.
    fixed.add_command(live.subscribe(&inner.names.gateway_events)).ignore();
    live.ask_all::<()>(&fixed).await?;

    inner.ears.start_again();
    // Whoever comes from now on waits for its channel; whoever came before is looked after below.
    inner.stats.up.store(true, Ordering::Relaxed);
    follow(inner, &live).await?;
    backoff.reset();
    inner.replica.start_again();
    inner.ears.tell_resync(inner.ears.everybody());

    let mut every = tokio::time::interval(PING);
    loop {
        tokio::select! {
            () = cut.notified() => return Ok(()),
            () = inner.ears.changed.notified() => follow(inner, &live).await?,
            _ = every.tick() => live.ping().await?,
        }
    }
}

/// Subscribes and leaves until everything is as it is wanted.
async fn follow(inner: &Inner, live: &Live) -> RedisResult<()> {
    loop {
        let turns = inner.ears.turns();
        if turns.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for (aid, turn) in &turns {
            let channel = inner.names.agent(aid);
            let command = match turn {
                Turn::Subscribe => live.subscribe(&channel),
                Turn::Leave => live.unsubscribe(&channel),
            };
            pipe.add_command(command).ignore();
        }
        live.ask_all::<()>(&pipe).await?;
        inner.ears.tell_resync(inner.ears.done(turns));
    }
}

/// Called in the connection's own task, so events keep their order and nothing queues here.
fn hear(inner: &Arc<Inner>, info: PushInfo, over: &Notify) {
    let payload = match (info.kind, info.data.as_slice()) {
        (PushKind::Disconnection, _) => return over.notify_one(),
        (
            PushKind::Message | PushKind::SMessage,
            [Value::BulkString(channel), Value::BulkString(payload)],
        ) => {
            if channel == inner.names.presence.as_bytes() {
                return inner.replica.hear(inner, payload);
            }
            payload
        }
        _ => return,
    };
    match publish::read(&inner.names.process, payload) {
        Some(Heard::Event(event)) => inner.listeners.call(&event),
        Some(Heard::Resync) => inner.ears.tell_resync(inner.ears.everybody()),
        None => {}
    }
}
