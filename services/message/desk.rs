//! On PostgreSQL: a commit is one call, which stores messages with their numbers or does nothing. Where the last numbers are
//! known here it is `post_numbered`; otherwise, or where they were not the last any more, `post` finds them.

use super::lasts::Lasts;
use super::ledger::{Advance, Bell, Changes, Done, Draft, Write};
use super::mail::{Mail, number};
use super::post::{self, Posted, Refused, call, call_numbered, passes};
use super::ring;
use super::sheet::array;
use super::store::{Store, json};
use super::stored_message::StoredMessage;
use sqlx::Any;
use sqlx::pool::PoolConnection;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// How often a commit is tried that another process was in the way of.
pub(super) const TRIES: usize = 6;

pub(super) struct Desk {
    pub store: Arc<Store>,
    pub bells: mpsc::Sender<Vec<Bell>>,
    pub lasts: Lasts,
}

/// The connection a lane keeps, so that no commit asks whether it is still there. Gone after any error.
pub(super) type Held = Option<PoolConnection<Any>>;

pub(super) type Outcome = Result<Done, Arc<sqlx::Error>>;

impl Desk {
    /// Messages, cursors and recalls are a transaction each kind. Gives an outcome for each write, in order.
    pub async fn commit(&self, held: &mut Held, writes: Vec<Write>) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = writes.iter().map(|_| None).collect();
        let (mut sends, mut acks, mut drafts, mut advances) = (vec![], vec![], vec![], vec![]);
        for (at, write) in writes.into_iter().enumerate() {
            match write {
                Write::Send(draft, changes) => {
                    sends.push(at);
                    drafts.push((*draft, changes));
                }
                Write::Ack(advance) => {
                    acks.push(at);
                    advances.push(advance);
                }
                Write::Recall(recall) => {
                    outcomes[at] = Some(self.recall(&recall).await.map_err(Arc::new));
                }
            }
        }
        fill(&mut outcomes, &sends, self.send(held, drafts).await);
        fill(&mut outcomes, &acks, self.advance(held, advances).await);
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(gone()))).collect()
    }

    async fn send(&self, held: &mut Held, drafts: Vec<(Draft, Changes)>) -> sqlx::Result<Vec<Done>> {
        let mut mail = Mail::new(drafts);
        for attempt in 1.. {
            let open = mail.open();
            if open.is_empty() {
                break;
            }
            if attempt > TRIES {
                return Err(sqlx::Error::RowNotFound);
            }
            match self.post(held, &mut mail, &open).await {
                Ok(()) => {}
                Err(error) if attempt < TRIES && passes(&error) => {
                    *held = None;
                    mail.lost |= !matches!(error, sqlx::Error::Database(_));
                }
                Err(error) => {
                    *held = None;
                    return Err(error);
                }
            }
        }
        Ok(self.told(mail).await)
    }

    /// One round trip. Messages that were stored before, or are addressed wrongly, are taken out and the rest waits for
    /// the next one.
    async fn post(&self, held: &mut Held, mail: &mut Mail, open: &[usize]) -> sqlx::Result<()> {
        let posted = match open.iter().any(|at| mail.drafts[*at].0.queue.is_some()) {
            true => self.post_queued(mail, open).await,
            false => self.post_plain(held, mail, open).await,
        };
        match posted {
            Ok(Posted::Known(ids)) => mail.known(self.store.messages(ids).await?),
            Ok(Posted::Numbered(numbers)) => mail.number(open, numbers),
            Err(error) if post::devices_changed(&error) => self.find_stale(mail, open).await?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn post_plain(&self, held: &mut Held, mail: &mut Mail, open: &[usize]) -> sqlx::Result<Posted> {
        let connection = self.connection(held).await?;
        if let Some(sheet) = mail.numbered_sheet(open, &self.lasts) {
            match call_numbered(connection, &sheet).await {
                Ok(()) => return Ok(Posted::Numbered(sheet.numbers)),
                Err(error) => match post::refused(&error) {
                    Some(Refused::Numbers) => self.lasts.were_wrong(),
                    Some(Refused::Name) => {}
                    None => return Err(error),
                },
            }
        }
        call(connection, mail.sheet(open)).await
    }

    /// What queue delivery keeps for a while appears with the message's number, not after it.
    async fn post_queued(&self, mail: &mut Mail, open: &[usize]) -> sqlx::Result<Posted> {
        let sheet = mail.sheet(open);
        let mut tx = self.store.db().write().await?;
        let numbers = match call(&mut tx, sheet).await? {
            Posted::Numbered(numbers) => numbers,
            known => return Ok(known),
        };
        let (mut seqs, mut told) = (numbers.iter().copied(), Vec::new());
        for at in open {
            let Draft { message, queue, .. } = &mail.drafts[*at].0;
            let mut message = message.clone();
            number(&mut message, &mut seqs);
            told.extend(queue.as_ref().map(|queue| StoredMessage { body: queue.payload.clone(), ..message }));
        }
        // In one order for everybody, as with the heads.
        told.sort_by(|a, b| a.to.as_str().cmp(b.to.as_str()));
        for message in &told {
            ring::share(&mut tx, message).await?;
        }
        tx.commit().await?;
        Ok(Posted::Numbered(numbers))
    }

    async fn find_stale(&self, mail: &mut Mail, open: &[usize]) -> sqlx::Result<()> {
        let checked = |at: &usize| mail.drafts[*at].1.0.iter().map(|(inbox, _)| *inbox);
        let inboxes: Vec<i64> = open.iter().flat_map(checked).collect();
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("SELECT inbox, changes FROM head WHERE inbox = ANY(CAST($1 AS BIGINT[]))")
                .bind(array(inboxes))
                .fetch_all(self.store.db().read())
                .await?;
        let now: HashMap<i64, i64> = rows.into_iter().collect();
        for at in open {
            let same = |(inbox, changes): &(i64, i64)| now.get(inbox) == Some(changes);
            if !mail.drafts[*at].1.0.iter().all(same) {
                mail.done[*at] = Some(Done::Stale);
            }
        }
        Ok(())
    }

    /// Only what is durable is shown to anyone.
    pub(super) async fn told(&self, mail: Mail) -> Vec<Done> {
        for place in mail.numbered() {
            self.lasts.put(place.inbox, place.seq);
        }
        let (done, bells) = mail.into_done();
        if !bells.is_empty() {
            // Only fails when the server is stopping and nobody listens.
            let _ = self.bells.send(bells).await;
        }
        done
    }

    async fn advance(&self, held: &mut Held, advances: Vec<Advance>) -> sqlx::Result<Vec<Done>> {
        let mut wanted: Vec<(i64, &str, &str, i64, usize)> = advances
            .iter()
            .enumerate()
            .map(|(at, ack)| (ack.inbox, ack.slot.as_str(), ack.sender.as_str(), ack.seq, at))
            .collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        // By cursor, and of one cursor in the order they came.
        wanted.sort_by_key(|(inbox, slot, sender, _, at)| (*inbox, *slot, *sender, *at));
        let text = json(&wanted);
        let mut attempt = 1;
        let rows: Vec<(i64, i64, i64)> = loop {
            let connection = self.connection(held).await?;
            let query = sqlx::query_as("SELECT nth, was, is_now FROM advance($1)").bind(text.as_str());
            match query.fetch_all(&mut **connection).await {
                Ok(rows) => break rows,
                Err(error) if attempt == TRIES || !passes(&error) => {
                    *held = None;
                    return Err(error);
                }
                Err(_) => *held = None,
            }
            attempt += 1;
        };
        let mut done: Vec<(usize, Done)> = rows
            .into_iter()
            .zip(&wanted)
            .map(|((_, before, now), (.., at))| (*at, Done::Acked { before, now }))
            .collect();
        done.sort_by_key(|(at, _)| *at);
        Ok(done.into_iter().map(|(_, done)| done).collect())
    }

    async fn connection<'h>(&self, held: &'h mut Held) -> sqlx::Result<&'h mut PoolConnection<Any>> {
        if held.is_none() {
            *held = Some(self.store.db().write_alone().acquire().await?);
        }
        held.as_mut().ok_or(sqlx::Error::PoolClosed)
    }
}

fn fill(outcomes: &mut [Option<Outcome>], places: &[usize], done: sqlx::Result<Vec<Done>>) {
    match done {
        Ok(done) => {
            for (at, done) in places.iter().zip(done) {
                outcomes[*at] = Some(Ok(done));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for at in places {
                outcomes[*at] = Some(Err(error.clone()));
            }
        }
    }
}

fn gone() -> Arc<sqlx::Error> {
    Arc::new(sqlx::Error::WorkerCrashed)
}
