//! Where letters, cursors and recalls are written: many at a time, in one transaction, in one order.
//!
//! A number is taken inside the commit. If the commit fails, nobody has seen it and the next letter gets it.

use super::inboxes::Inboxes;
use super::letter::{Key, Kind, Letter, Place};
use super::ring::Rings;
use super::store::{Store, UNFILED_BYTES, json, read};
use super::{Error, events};
use crate::kernel::{Aid, Batch, Bus, DeviceId, Engine, Presence, Seat, Trace, World};
use serde_json::value::RawValue;
use sqlx::any::AnyArguments;
use sqlx::{Any, Transaction};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What may wait for a commit.
const QUEUE_BYTES: usize = 64 << 20;
/// How many commits may be ahead of the bells for them.
const BELLS: usize = 64;

/// A letter that has no numbers yet.
pub(super) struct Draft {
    /// `places` have no `seq` yet.
    pub letter: Letter,
    /// The device behind each place, for the bell.
    pub devices: Vec<DeviceId>,
    /// The one connection that gets a queue message, and the payload that only memory keeps.
    pub queue: Option<Queued>,
    pub trace: Option<Trace>,
}

pub(super) struct Queued {
    pub seat: Option<Seat>,
    pub payload: Box<RawValue>,
}

/// A consumer says how far it has read.
pub(super) struct Advance {
    pub inbox: i64,
    pub slot: String,
    /// Empty for all senders together.
    pub sender: String,
    pub seq: i64,
}

/// A sender takes letters back.
pub(super) struct Recall {
    pub from: Aid,
    pub device: DeviceId,
    pub message_ids: Vec<String>,
    pub now: i64,
    /// Letters older than this stay.
    pub since: i64,
    /// The ids for what tells the recipients of it, one for each of them.
    pub notice_ids: Vec<String>,
    /// The devices behind the inboxes that may have to be told.
    pub devices: HashMap<i64, DeviceId>,
}

pub(super) enum Write {
    Send(Box<Draft>),
    Ack(Advance),
    Recall(Box<Recall>),
}

/// What became of a write.
pub(super) enum Done {
    Sent(Arc<Letter>),
    /// It was sent before; this is the one.
    Again(Arc<Letter>),
    Acked {
        before: i64,
        now: i64,
    },
    Recalled(Vec<(String, Outcome)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Recalled,
    NotFound,
    AlreadyRecalled,
    Expired,
}

/// What a commit has to be told of.
pub(super) struct Bell {
    pub letter: Arc<Letter>,
    pub devices: Vec<DeviceId>,
    pub seat: Option<Seat>,
    pub trace: Option<Trace>,
}

pub(super) struct Ledger {
    batch: Batch<Write, Done>,
    store: Arc<Store>,
}

impl Ledger {
    pub async fn open(
        world: &World,
        store: Arc<Store>,
        rings: Arc<Rings<Arc<Letter>>>,
        inboxes: Arc<Inboxes>,
    ) -> sqlx::Result<Ledger> {
        let (ring, bells) = mpsc::channel(BELLS);
        world.tracker.spawn(announce(bells, inboxes, world.bus.clone(), world.presence.clone()));
        let last: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) FROM letter")
            .fetch_one(store.db().read())
            .await?;
        let writer = Writer { store: store.clone(), rings, ring, last, unsure: false };
        let batch = Batch::start_with(&world.tracker, QUEUE_BYTES, writer, |mut writer: Writer, writes| async move {
            let done = writer.commit(writes).await;
            (writer, done)
        });
        Ok(Ledger { batch, store })
    }

    pub async fn write(&self, write: Write) -> Result<Done, Error> {
        let (_, bytes) = self.store.unfiled();
        if bytes > UNFILED_BYTES {
            return Err(Error::Behind(bytes));
        }
        let weight = match &write {
            Write::Send(draft) => draft.letter.weight() + draft.queue.as_ref().map_or(0, |q| q.payload.get().len()),
            Write::Ack(_) => 128,
            Write::Recall(recall) => 128 + recall.message_ids.iter().map(String::len).sum::<usize>(),
        };
        Ok(self.batch.submit(write, weight).await?)
    }
}

/// Rings the bells of committed letters, in the order of the commits. It ends with the ledger and not before, whatever
/// happens to a single bell.
async fn announce(
    mut bells: mpsc::Receiver<Vec<Bell>>,
    inboxes: Arc<Inboxes>,
    bus: Bus,
    presence: Presence,
) {
    while let Some(mut bells) = bells.recv().await {
        for bell in &mut bells {
            if bell.devices.iter().any(DeviceId::is_empty) {
                name_devices(bell, &inboxes).await;
            }
            if catch_unwind(AssertUnwindSafe(|| events::ring(&bus, &presence, &*bell))).is_err() {
                tracing::error!("a message could not be announced; its recipient finds it by pull");
            }
        }
    }
}

/// An inbox that waited for its first device may have got one while the letter was on its way.
async fn name_devices(bell: &mut Bell, inboxes: &Inboxes) {
    let Ok(known) = inboxes.of(&bell.letter.to).await else { return };
    for (place, device) in bell.letter.places.iter().zip(&mut bell.devices) {
        if let Some(inbox) = known.iter().find(|inbox| inbox.id == place.inbox) {
            *device = inbox.device.clone();
        }
    }
}

/// The one task that writes.
struct Writer {
    store: Arc<Store>,
    rings: Arc<Rings<Arc<Letter>>>,
    ring: mpsc::Sender<Vec<Bell>>,
    /// The last letter of the log.
    last: i64,
    /// A commit failed: the log is asked what it really holds.
    unsure: bool,
}

/// One commit as it is being made.
struct Commit {
    /// On PostgreSQL, where others may write beside us. On SQLite nobody else writes, so nothing is held while reading.
    tx: Option<Transaction<'static, Any>>,
    heads: HashMap<i64, i64>,
    letters: Vec<Arc<Letter>>,
    bells: Vec<Bell>,
    queued: Vec<(Arc<Letter>, i64)>,
    changed: Vec<Arc<Letter>>,
    cursors: BTreeMap<(i64, String, String), i64>,
}

impl Writer {
    async fn commit(&mut self, writes: Vec<Write>) -> sqlx::Result<Vec<Done>> {
        self.make_sure().await?;
        let outcome = self.try_commit(writes).await;
        self.unsure = outcome.is_err();
        outcome
    }

    /// After a failed commit the log decides what happened.
    async fn make_sure(&mut self) -> sqlx::Result<()> {
        if self.unsure && self.store.files_behind() {
            loop {
                let letters = self.store.log_after(self.last, 1000).await?;
                let Some(letter) = letters.last() else { break };
                self.last = letter.id;
                self.store.take_in(letters);
            }
        }
        self.unsure = false;
        Ok(())
    }

    async fn try_commit(&mut self, writes: Vec<Write>) -> sqlx::Result<Vec<Done>> {
        let known = self.known(&writes).await?;
        let mut commit = Commit {
            tx: match self.store.db().engine() {
                Engine::Sqlite => None,
                Engine::Postgres => Some(self.store.db().write().await?),
            },
            heads: HashMap::new(),
            letters: Vec::new(),
            bells: Vec::new(),
            queued: Vec::new(),
            changed: Vec::new(),
            cursors: BTreeMap::new(),
        };
        self.take_numbers(&mut commit, &writes, &known).await?;
        let before = self.old_cursors(&mut commit, &writes).await?;
        let mut fresh: HashMap<Key, Arc<Letter>> = HashMap::new();
        let mut done = Vec::with_capacity(writes.len());
        for write in writes {
            done.push(match write {
                Write::Send(draft) => {
                    let key = draft.letter.key;
                    match known.get(&key).or_else(|| fresh.get(&key)) {
                        Some(first) => Done::Again(first.clone()),
                        None => {
                            let letter = self.number(&mut commit, *draft);
                            fresh.insert(key, letter.clone());
                            Done::Sent(letter)
                        }
                    }
                }
                Write::Ack(advance) => self.advance(&mut commit, &before, advance).await?,
                Write::Recall(recall) => self.recall(&mut commit, &fresh, *recall).await?,
            });
        }
        match commit.tx.take() {
            None => self.write_log(&mut commit).await?,
            Some(tx) => self.write_filed(&mut commit, tx).await?,
        }

        let Commit { letters, bells, queued, changed, .. } = commit;
        self.store.was_written();
        self.after(letters, bells, queued, changed).await;
        Ok(done)
    }

    /// Only what is durable is shown to anyone.
    async fn after(
        &mut self,
        letters: Vec<Arc<Letter>>,
        bells: Vec<Bell>,
        queued: Vec<(Arc<Letter>, i64)>,
        changed: Vec<Arc<Letter>>,
    ) {
        if let Some(last) = letters.last() {
            self.last = last.id;
        }
        for (letter, inbox) in queued {
            if let Some(place) = letter.place(inbox) {
                let (to, seq) = (letter.to.clone(), place.seq);
                self.rings.put(&to, inbox, seq, letter.at, letter.weight(), letter);
            }
        }
        if self.store.files_behind() {
            self.store.take_in(letters);
            self.store.replace(&changed);
        }
        if !bells.is_empty() {
            // Only fails when the server is stopping and nobody listens.
            let _ = self.ring.send(bells).await;
        }
    }

    /// The letters that some of these writes repeat.
    async fn known(&self, writes: &[Write]) -> sqlx::Result<HashMap<Key, Arc<Letter>>> {
        let keys: Vec<Key> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Send(draft) => Some(draft.letter.key),
                Write::Ack(_) | Write::Recall(_) => None,
            })
            .collect();
        if keys.is_empty() { Ok(HashMap::new()) } else { self.store.find_all(&keys).await }
    }

    /// Looks up the last numbers of the inboxes that get letters. On PostgreSQL that locks them, always in the same
    /// order, so that two processes never wait for each other.
    async fn take_numbers(
        &self,
        commit: &mut Commit,
        writes: &[Write],
        known: &HashMap<Key, Arc<Letter>>,
    ) -> sqlx::Result<()> {
        let mut inboxes = BTreeSet::new();
        for write in writes {
            match write {
                Write::Send(draft) if !known.contains_key(&draft.letter.key) => {
                    inboxes.extend(draft.letter.places.iter().map(|place| place.inbox));
                }
                Write::Recall(recall) => {
                    let keys: Vec<Key> =
                        recall.message_ids.iter().map(|id| Key::new(&recall.from, id)).collect();
                    let found = self.store.find_all(&keys).await?;
                    inboxes.extend(found.values().flat_map(|letter| letter.places.iter().map(|p| p.inbox)));
                }
                Write::Send(_) | Write::Ack(_) => {}
            }
        }
        let Some(tx) = &mut commit.tx else {
            commit.heads = inboxes.into_iter().map(|inbox| (inbox, self.store.head(inbox))).collect();
            return Ok(());
        };
        if inboxes.is_empty() {
            return Ok(());
        }
        let wanted = json(&inboxes);
        sqlx::query(
            "INSERT INTO head (inbox, seq, floor)
             SELECT CAST(v AS BIGINT), 0, 0 FROM json_array_elements_text(CAST($1 AS JSON)) AS v
             ORDER BY 1 ON CONFLICT DO NOTHING",
        )
        .bind(wanted.as_str())
        .execute(&mut **tx)
        .await?;
        let rows: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT inbox, seq FROM head
             WHERE inbox IN (SELECT CAST(v AS BIGINT) FROM json_array_elements_text(CAST($1 AS JSON)) AS v)
             ORDER BY inbox FOR UPDATE",
        )
        .bind(wanted.as_str())
        .fetch_all(&mut **tx)
        .await?;
        commit.heads = rows.into_iter().collect();
        Ok(())
    }

    /// Gives a letter its numbers.
    fn number(&self, commit: &mut Commit, draft: Draft) -> Arc<Letter> {
        let Draft { mut letter, devices, queue, trace } = draft;
        for Place { inbox, seq, .. } in &mut letter.places {
            let head = commit.heads.entry(*inbox).or_default();
            *head += 1;
            *seq = *head;
        }
        letter.id = self.last + 1 + commit.letters.len() as i64;
        let letter = Arc::new(letter);
        let mut told = letter.clone();
        let mut seat = None;
        if let Some(queued) = queue {
            told = Arc::new(Letter { body: queued.payload, ..Letter::clone(&letter) });
            seat = queued.seat;
            if let Some(place) = letter.places.first() {
                commit.queued.push((told.clone(), place.inbox));
            }
        }
        commit.bells.push(Bell { letter: told, devices, seat, trace });
        commit.letters.push(letter.clone());
        letter
    }

    async fn old_cursors(
        &self,
        commit: &mut Commit,
        writes: &[Write],
    ) -> sqlx::Result<HashMap<(i64, String, String), i64>> {
        let wanted: Vec<(i64, &str, &str)> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Ack(ack) => Some((ack.inbox, ack.slot.as_str(), ack.sender.as_str())),
                Write::Send(_) | Write::Recall(_) => None,
            })
            .collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let query = match self.store.db().engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT c.inbox, c.slot, c.sender, c.seq FROM json_each($1) AS w
                 JOIN cursor AS c ON c.inbox = w.value ->> 0 AND c.slot = w.value ->> 1 AND c.sender = w.value ->> 2",
            ),
            Engine::Postgres => sqlx::query_as(
                "SELECT c.inbox, c.slot, c.sender, c.seq FROM json_array_elements(CAST($1 AS JSON)) AS w
                 JOIN cursor AS c
                   ON c.inbox = CAST(w ->> 0 AS BIGINT) AND c.slot = w ->> 1 AND c.sender = w ->> 2",
            ),
        };
        let query = query.bind(json(&wanted));
        let rows: Vec<(i64, String, String, i64)> = match &mut commit.tx {
            None => query.fetch_all(self.store.db().read()).await?,
            Some(tx) => query.fetch_all(&mut **tx).await?,
        };
        Ok(rows.into_iter().map(|(inbox, slot, sender, seq)| ((inbox, slot, sender), seq)).collect())
    }

    /// "ack_seq only grows" (message.ack), and never beyond what was sent.
    async fn advance(
        &self,
        commit: &mut Commit,
        before: &HashMap<(i64, String, String), i64>,
        advance: Advance,
    ) -> sqlx::Result<Done> {
        let Advance { inbox, slot, sender, seq } = advance;
        let head = match commit.heads.get(&inbox) {
            Some(head) => *head,
            None => self.store.standing(inbox).await?.head,
        };
        let place = (inbox, slot, sender);
        let old = commit.cursors.get(&place).or_else(|| before.get(&place)).copied().unwrap_or(0);
        let now = old.max(seq.min(head));
        if now > old {
            commit.cursors.insert(place, now);
        }
        Ok(Done::Acked { before: old, now })
    }

    async fn recall(
        &self,
        commit: &mut Commit,
        fresh: &HashMap<Key, Arc<Letter>>,
        recall: Recall,
    ) -> sqlx::Result<Done> {
        let mut outcomes = Vec::with_capacity(recall.message_ids.len());
        let mut taken: Vec<Arc<Letter>> = Vec::new();
        for message_id in &recall.message_ids {
            let key = Key::new(&recall.from, message_id);
            // One that was sent in this very commit is not in the store yet; its sender was not answered either.
            let letter = match fresh.contains_key(&key) {
                true => None,
                false => self.current(commit, &key).await?,
            };
            let outcome = match &letter {
                None => Outcome::NotFound,
                Some(letter) if letter.recalled_at.is_some() => Outcome::AlreadyRecalled,
                Some(letter) if matches!(letter.kind, Kind::Queue | Kind::Recall) => Outcome::NotFound,
                Some(letter) if letter.at < recall.since => Outcome::Expired,
                Some(_) => Outcome::Recalled,
            };
            if let (Outcome::Recalled, Some(letter)) = (outcome, letter) {
                let changed = Arc::new(letter.recalled(recall.now));
                commit.changed.retain(|other| other.id != changed.id);
                commit.changed.push(changed.clone());
                taken.push(changed);
            }
            outcomes.push((message_id.clone(), outcome));
        }
        self.give_notice(commit, &recall, &taken);
        Ok(Done::Recalled(outcomes))
    }

    /// The letter as it is now, with what this commit did to it.
    async fn current(&self, commit: &mut Commit, key: &Key) -> sqlx::Result<Option<Arc<Letter>>> {
        if let Some(changed) = commit.changed.iter().find(|letter| letter.key == *key) {
            return Ok(Some(changed.clone()));
        }
        let Some(letter) = self.store.find(key).await? else { return Ok(None) };
        let Some(tx) = &mut commit.tx else { return Ok(Some(letter)) };
        let locked: Option<String> = sqlx::query_scalar("SELECT data FROM letter WHERE id = $1 FOR UPDATE")
            .bind(letter.id)
            .fetch_optional(&mut **tx)
            .await?;
        locked.map(|data| read(letter.id, &data)).transpose()
    }

    /// A new row for each inbox that had one of these, so that devices that have read them learn of it, too.
    fn give_notice(&self, commit: &mut Commit, recall: &Recall, taken: &[Arc<Letter>]) {
        let mut recipients: BTreeMap<&Aid, Vec<&Arc<Letter>>> = BTreeMap::new();
        for letter in taken {
            recipients.entry(&letter.to).or_default().push(letter);
        }
        for ((to, letters), message_id) in recipients.into_iter().zip(&recall.notice_ids) {
            let ids: Vec<String> = letters.iter().map(|letter| letter.message_id.clone()).collect();
            let draft = events::notice(recall, to, message_id, &ids, &letters);
            self.number(commit, draft);
        }
    }

    /// On SQLite: letters alone, which is what nearly every commit is, are one statement and need no other.
    async fn write_log(&self, commit: &mut Commit) -> sqlx::Result<()> {
        let db = self.store.db();
        if commit.changed.is_empty() && commit.cursors.is_empty() {
            if commit.letters.is_empty() {
                return Ok(());
            }
            self.append(commit).execute(db.write_alone()).await?;
            return Ok(());
        }
        let mut tx = db.write().await?;
        write_changed(&mut tx, &commit.changed).await?;
        if !commit.cursors.is_empty() {
            self.write_cursors(commit).execute(&mut *tx).await?;
        }
        if !commit.letters.is_empty() {
            self.append(commit).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    /// The letters go end to end as they are: as JSON in JSON they would be written and read twice.
    fn append(&self, commit: &Commit) -> Query<'static> {
        let (mut text, mut parts) = (Vec::new(), Vec::with_capacity(commit.letters.len()));
        for letter in &commit.letters {
            let start = text.len();
            text.extend_from_slice(json(&**letter).as_bytes());
            parts.push((start + 1, text.len() - start));
        }
        sqlx::query(
            "INSERT INTO letter (id, at, data)
             SELECT $1 + key, $2, CAST(substr($3, value ->> 0, value ->> 1) AS TEXT) FROM json_each($4)",
        )
        .bind(self.last + 1)
        .bind(commit.letters.first().map_or(0, |letter| letter.at))
        .bind(text)
        .bind(json(&parts))
    }

    fn write_cursors(&self, commit: &Commit) -> Query<'static> {
        let rows: Vec<(i64, &str, &str, i64)> = commit
            .cursors
            .iter()
            .map(|((inbox, slot, sender), seq)| (*inbox, slot.as_str(), sender.as_str(), *seq))
            .collect();
        let query = match self.store.db().engine() {
            Engine::Sqlite => sqlx::query(
                "INSERT INTO cursor (inbox, slot, sender, seq)
                 SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each($1) WHERE true
                 ON CONFLICT (inbox, slot, sender) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > cursor.seq",
            ),
            Engine::Postgres => sqlx::query(
                "INSERT INTO cursor (inbox, slot, sender, seq)
                 SELECT CAST(v ->> 0 AS BIGINT), v ->> 1, v ->> 2, CAST(v ->> 3 AS BIGINT)
                 FROM json_array_elements(CAST($1 AS JSON)) AS v
                 ON CONFLICT (inbox, slot, sender) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > cursor.seq",
            ),
        };
        query.bind(json(&rows))
    }

    async fn write_filed(&self, commit: &mut Commit, mut tx: Transaction<'static, Any>) -> sqlx::Result<()> {
        write_changed(&mut tx, &commit.changed).await?;
        if !commit.cursors.is_empty() {
            self.write_cursors(commit).execute(&mut *tx).await?;
        }
        if let Some(first) = commit.letters.first() {
            self.append_filed(commit, first.at).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    /// On PostgreSQL the letters and where they lie are one statement.
    fn append_filed(&self, commit: &Commit, at: i64) -> Query<'static> {
        let data: Vec<String> = commit.letters.iter().map(|letter| json(&**letter)).collect();
        let mut entries: Vec<(usize, i64, i64, u32, &str)> = Vec::new();
        let mut heads: BTreeMap<i64, i64> = BTreeMap::new();
        for (n, letter) in commit.letters.iter().enumerate() {
            for place in &letter.places {
                entries.push((n + 1, place.inbox, place.seq, place.copy, letter.from.as_str()));
                heads.insert(place.inbox, place.seq);
            }
        }
        let keys: Vec<String> =
            commit.letters.iter().map(|letter| letter.key.text()).collect();
        sqlx::query(
            "WITH made AS (
                 SELECT nextval(pg_get_serial_sequence('letter', 'id')) AS id, n, data
                 FROM json_array_elements_text(CAST($2 AS JSON)) WITH ORDINALITY AS v (data, n)),
             letters AS (INSERT INTO letter (id, at, data) SELECT id, $1, data FROM made),
             keys AS (
                 INSERT INTO seen (key, letter) SELECT v.key, made.id
                 FROM json_array_elements_text(CAST($3 AS JSON)) WITH ORDINALITY AS v (key, n)
                 JOIN made ON made.n = v.n),
             heads AS (
                 UPDATE head SET seq = CAST(v ->> 1 AS BIGINT) FROM json_array_elements(CAST($5 AS JSON)) AS v
                 WHERE head.inbox = CAST(v ->> 0 AS BIGINT))
             INSERT INTO entry (inbox, seq, letter, copy, sender)
             SELECT CAST(v ->> 1 AS BIGINT), CAST(v ->> 2 AS BIGINT), made.id, CAST(v ->> 3 AS BIGINT), v ->> 4
             FROM json_array_elements(CAST($4 AS JSON)) AS v JOIN made ON made.n = CAST(v ->> 0 AS BIGINT)",
        )
        .bind(at)
        .bind(json(&data))
        .bind(json(&keys))
        .bind(json(&entries))
        .bind(json(&heads.into_iter().collect::<Vec<_>>()))
    }
}

type Query<'q> = sqlx::query::Query<'q, Any, AnyArguments>;

async fn write_changed(tx: &mut Transaction<'static, Any>, changed: &[Arc<Letter>]) -> sqlx::Result<()> {
    for letter in changed {
        sqlx::query("UPDATE letter SET data = $2 WHERE id = $1")
            .bind(letter.id)
            .bind(json(&**letter))
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}
