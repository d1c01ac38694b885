//! What a gateway tells the others of its connections.

use super::AnnouncedSession;
use super::follow::failed;
use super::replica::{Change, LEASE, NUMBER, Note, Replica};
use crate::kernel::Aid;
use crate::kernel::redis::{Inner, Live, command};
use redis::{Cmd, RedisResult};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const BEAT: Duration = Duration::from_secs(2);
/// How long the list of a gateway that is gone stays in Redis.
const LIST: Duration = Duration::from_secs(60);
/// Changes said at once, and connections of a list written at once.
const CHUNK: usize = 256;
/// Past so many changes it is cheaper to write the whole list.
const MOST_CHANGES: usize = 8192;
/// How long a login waits until the others know of it.
const PATIENCE: Duration = Duration::from_millis(500);

/// What has not been said yet.
pub(super) struct Speech {
    changes: Vec<Change>,
    /// Changes there were, and changes that were said.
    made: u64,
    said: u64,
    /// Whether the list in Redis is not ours any more: at the beginning, and whenever something went wrong.
    rewrite: bool,
}

impl Default for Speech {
    fn default() -> Speech {
        Speech { changes: Vec::new(), made: 0, said: 0, rewrite: true }
    }
}

impl Speech {
    fn add(&mut self, change: Change) {
        self.made += 1;
        self.changes.push(change);
        if self.changes.len() > MOST_CHANGES {
            self.changes.clear();
            self.rewrite = true;
        }
    }
}

impl Replica {
    pub fn admit(&self, aid: &Aid, announced: AnnouncedSession) {
        let announced = Arc::new(announced);
        let mut state = self.state.lock();
        self.place(&mut state, &self.own, aid, announced.clone());
        state.speech.add(Change::Here(aid.clone(), announced));
        drop(state);
        self.speak.notify_one();
    }

    /// Said once, however often it is asked for.
    pub fn leave(&self, aid: &Aid, connection: u64) {
        let mut state = self.state.lock();
        if !state.gateways.get(&self.own).is_some_and(|own| own.connections.contains_key(&connection)) {
            return;
        }
        self.remove(&mut state, &self.own, aid, connection);
        state.speech.add(Change::Gone(aid.clone(), connection));
        drop(state);
        self.speak.notify_one();
    }

    pub async fn announced(&self) {
        let made = self.state.lock().speech.made;
        let mut told = self.told.subscribe();
        let _ = tokio::time::timeout(PATIENCE, told.wait_for(|told| *told >= made)).await;
    }

    /// Says what changes as it changes, and that we live. Ends with a farewell.
    pub async fn announce(&self, inner: Arc<Inner>, stop: CancellationToken) {
        let mut every = tokio::time::interval(BEAT);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut line = inner.line.changes();
        while !stop.is_cancelled() {
            let due = tokio::select! {
                () = stop.cancelled() => break,
                () = self.speak.notified() => false,
                _ = every.tick() => true,
                _ = line.changed() => true,
            };
            self.speak_up(&inner, due).await;
        }
        self.speak_up(&inner, false).await;
        if let Some(live) = inner.line.now() {
            let _ = self.farewell(&inner, &live).await;
        }
    }

    async fn speak_up(&self, inner: &Inner, due: bool) {
        let Some(live) = inner.line.now() else { return self.keep_for_later() };
        let said = async {
            if self.state.lock().speech.rewrite {
                self.rewrite(inner, &live).await?;
            }
            self.say(inner, &live).await?;
            if due && !self.beat(inner, &live).await? {
                self.rewrite(inner, &live).await?;
            }
            Ok(())
        };
        if let Err(error) = said.await {
            failed(inner, &live, &error);
            self.keep_for_later();
        }
    }

    /// The whole list will be written when Redis is back. Nobody waits for that.
    fn keep_for_later(&self) {
        let mut state = self.state.lock();
        let speech = &mut state.speech;
        speech.changes.clear();
        speech.rewrite = true;
        self.told.send_replace(speech.made);
    }

    /// Into the list first, then to everybody: whoever reads the list because of a note finds at least that note in it.
    async fn say(&self, inner: &Inner, live: &Live) -> RedisResult<()> {
        loop {
            let (changes, after) = {
                let mut state = self.state.lock();
                let speech = &mut state.speech;
                let most = speech.changes.len().min(CHUNK);
                let changes: Vec<Change> = speech.changes.drain(..most).collect();
                (changes, speech.said)
            };
            if changes.is_empty() {
                return Ok(());
            }
            let said = after + changes.len() as u64;
            let list = inner.names.sessions(&self.own);
            let mut pipe = redis::pipe();
            for change in &changes {
                pipe.add_command(in_list(&list, change)).ignore();
            }
            pipe.add_command(command("HSET", &list).arg(NUMBER).arg(said).take()).ignore();
            pipe.add_command(self.note(inner, live, after, changes, false)).ignore();
            live.ask_all::<()>(&pipe).await?;
            self.state.lock().speech.said = said;
            self.told.send_replace(said);
        }
    }

    /// Gives whether the list is as it should be: a flushed Redis has none.
    async fn beat(&self, inner: &Inner, live: &Live) -> RedisResult<bool> {
        let said = self.state.lock().speech.said;
        let mut pipe = redis::pipe();
        for command in self.lease(inner) {
            pipe.add_command(command).ignore();
        }
        pipe.add_command(command("HGET", &inner.names.sessions(&self.own)).arg(NUMBER).take());
        pipe.add_command(self.note(inner, live, said, Vec::new(), false)).ignore();
        let (number,): (Option<String>,) = live.ask_all(&pipe).await?;
        Ok(number.is_some_and(|number| number == said.to_string()))
    }

    /// Writes the whole list. It has no number until it is complete.
    async fn rewrite(&self, inner: &Inner, live: &Live) -> RedisResult<()> {
        let (connections, number) = {
            let mut state = self.state.lock();
            state.speech.changes.clear();
            state.speech.rewrite = false;
            state.speech.said = state.speech.made;
            let own =
                state.agents.iter().flat_map(|(aid, known)| known.iter().map(move |known| (aid, known)));
            let own = own.filter(|(_, known)| known.gateway == self.own);
            let connections: Vec<Change> =
                own.map(|(aid, known)| Change::Here(aid.clone(), known.announced.clone())).collect();
            (connections, state.speech.made)
        };
        let list = inner.names.sessions(&self.own);
        live.ask::<()>(&command("DEL", &list)).await?;
        for chunk in connections.chunks(CHUNK) {
            let mut pipe = redis::pipe();
            for change in chunk {
                pipe.add_command(in_list(&list, change)).ignore();
            }
            live.ask_all::<()>(&pipe).await?;
        }
        let mut pipe = redis::pipe();
        pipe.add_command(command("HSET", &list).arg(NUMBER).arg(number).take()).ignore();
        for command in self.lease(inner) {
            pipe.add_command(command).ignore();
        }
        pipe.add_command(self.note(inner, live, number, Vec::new(), false)).ignore();
        live.ask_all::<()>(&pipe).await?;
        self.told.send_replace(number);
        Ok(())
    }

    fn lease(&self, inner: &Inner) -> [Cmd; 3] {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let names = &inner.names;
        [
            command("SET", &names.lease(&self.own)).arg(1).arg("PX").arg(ms(LEASE)).take(),
            command("SADD", &names.gateways).arg(&*self.own).take(),
            command("PEXPIRE", &names.sessions(&self.own)).arg(ms(LIST)).take(),
        ]
    }

    async fn farewell(&self, inner: &Inner, live: &Live) -> RedisResult<()> {
        let names = &inner.names;
        let said = self.state.lock().speech.said;
        let mut pipe = redis::pipe();
        pipe.add_command(command("DEL", &names.lease(&self.own)).arg(names.sessions(&self.own)).take())
            .ignore();
        pipe.add_command(command("SREM", &names.gateways).arg(&*self.own).take()).ignore();
        pipe.add_command(self.note(inner, live, said, Vec::new(), true)).ignore();
        live.ask_all(&pipe).await
    }

    fn note(&self, inner: &Inner, live: &Live, after: u64, changes: Vec<Change>, bye: bool) -> Cmd {
        let note = Note { gateway: self.own.clone(), after, sent_ms: inner.clock.now_ms(), changes, bye };
        let text = serde_json::to_vec(&note).expect("a note is plain data");
        live.publish(&inner.names.presence, &text)
    }
}

fn in_list(list: &str, change: &Change) -> Cmd {
    match change {
        Change::Here(aid, announced) => {
            let text = serde_json::to_vec(&(aid, announced)).expect("a connection is plain data");
            command("HSET", list).arg(announced.session.connection).arg(text).take()
        }
        Change::Gone(_, connection) => command("HDEL", list).arg(connection).take(),
    }
}
