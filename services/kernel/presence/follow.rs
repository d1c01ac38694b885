//! How a process follows what gateways say: it reads the lists it needs, and asks after gateways that are silent.

use super::replica::{List, NUMBER, Replica};
use crate::kernel::redis::{Inner, Live, command};
use redis::{RedisError, RedisResult};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const LOOK: Duration = Duration::from_secs(1);

impl Replica {
    /// Reads lists that are needed, and asks after gateways that are silent.
    pub async fn watch(self: Arc<Self>, inner: Arc<Inner>, stop: CancellationToken) {
        let mut every = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.look.notified() => {}
                _ = every.tick() => {}
            }
            let Some(live) = inner.line.now() else { continue };
            if !inner.stats.up.load(Ordering::Relaxed) {
                continue;
            }
            let start_again = std::mem::take(&mut self.state.lock().start_again);
            if let Err(error) = self.look_around(&inner, &live, start_again).await {
                self.state.lock().start_again |= start_again;
                failed(&inner, &live, &error);
            }
        }
    }

    async fn look_around(&self, inner: &Inner, live: &Live, start_again: bool) -> RedisResult<()> {
        if start_again {
            let names: Vec<String> = live.ask(&command("SMEMBERS", &inner.names.gateways)).await?;
            let mut state = self.state.lock();
            let known: Vec<Arc<str>> = state.gateways.keys().cloned().collect();
            let all = names.into_iter().map(Arc::from).chain(known);
            state.wanted.extend(all.filter(|name| *name != self.own));
        }
        while let Some(name) = self.next_wanted() {
            if let Err(error) = self.fetch(inner, live, &name).await {
                self.state.lock().wanted.insert(name);
                return Err(error);
            }
        }
        if start_again {
            self.synced.send_replace(true);
        }
        for name in self.silent() {
            self.ask_after(inner, live, &name).await?;
        }
        Ok(())
    }

    fn next_wanted(&self) -> Option<Arc<str>> {
        self.state.lock().wanted.pop_first()
    }

    /// Reads the list of a gateway, unless its number is the one we have.
    async fn fetch(&self, inner: &Inner, live: &Live, name: &Arc<str>) -> RedisResult<()> {
        let list = inner.names.sessions(name);
        let mut pipe = redis::pipe();
        pipe.add_command(command("EXISTS", &inner.names.lease(name)));
        pipe.add_command(command("HGET", &list).arg(NUMBER).take());
        let (lives, number): (bool, Option<String>) = live.ask_all(&pipe).await?;
        let number = number.and_then(|number| number.parse().ok());
        let known = self.state.lock().gateways.get(name).and_then(|gateway| gateway.number);
        if !lives || number.is_none() || number == known {
            // Its gateway is gone, or the list is being written, or lost and its gateway will see that. If it lives, its
            // next heartbeat tells.
            return Ok(());
        }
        let fields: HashMap<String, Vec<u8>> = live.ask(&command("HGETALL", &list)).await?;
        if let Some((number, connections)) = read_list(&fields) {
            self.install(name, number, connections);
        }
        Ok(())
    }

    async fn ask_after(&self, inner: &Inner, live: &Live, name: &Arc<str>) -> RedisResult<()> {
        let lives: bool = live.ask(&command("EXISTS", &inner.names.lease(name))).await?;
        if !lives {
            self.forget(name);
            return live.ask(command("SREM", &inner.names.gateways).arg(&**name)).await;
        }
        let mut state = self.state.lock();
        if let Some(gateway) = state.gateways.get_mut(name) {
            gateway.heard = Instant::now();
            state.wanted.insert(name.clone());
        }
        Ok(())
    }
}

/// A list without a number is being written.
fn read_list(fields: &HashMap<String, Vec<u8>>) -> Option<(u64, List)> {
    let number = std::str::from_utf8(fields.get(NUMBER)?).ok()?.parse().ok()?;
    let announced = |(connection, text): (&String, &Vec<u8>)| {
        Some((connection.parse().ok()?, serde_json::from_slice(text).ok()?))
    };
    Some((number, fields.iter().filter_map(announced).collect()))
}

/// What went wrong, said once by whoever holds the connection.
pub(super) fn failed(inner: &Inner, live: &Live, error: &RedisError) {
    inner.stats.errors.fetch_add(1, Ordering::Relaxed);
    inner.line.lost(live, error);
}
