//! The messages of an agent: each once, in order, whatever happens to the connection.
//!
//! The server numbers what is in an inbox. Up to `seen` everything has been taken over; an event with the next seq is taken over
//! as it comes, and one with an older seq was there before. Wherever events may be missing (at the beginning, after a new
//! connection, behind a full queue, and before a seq that is not the next) `message.pull` brings everything after `seen`. The
//! server stores a message before it publishes the event, so a pull that begins after an event was read covers its message.

pub(crate) mod incoming;
mod volatile;

use super::backoff::pause;
use super::client::Client;
use super::error::Error;
use super::events::{EventQueue, Notice, ReceivedEvent};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use incoming::{Incoming, IncomingMessage};
use proto_schemas::requests::message::{Ack, Seq};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::sleep;
use volatile::VolatileCursors;

/// Rows of one pull.
const PAGE: u32 = 200;

/// The events that have a seq of the inbox.
const RECEIVED: &str = "event/message.received";
const RECALLED: &str = "event/message.recalled";
const ENCRYPTED: &str = "event/peer.v2.message_received";

/// The messages of an agent as they arrive, after those that are in its inbox.
///
/// What was handed out is acknowledged when the next message is asked for, or by [`Messages::acknowledge`]: a program that ends
/// in between gets its last message again the next time. Encrypted messages have no plaintext here; they are skipped.
pub struct Messages {
    client: Client,
    queue: Arc<EventQueue>,
    /// The seq up to which everything was taken over from the server; unknown before the first pull.
    seen: Option<u64>,
    /// The seq up to which everything was handed out, and how far that is acknowledged.
    handed_out: u64,
    acknowledged: u64,
    /// The seq of the last encrypted message that was seen; a pull leaves these out.
    encrypted_seen: u64,
    volatile: VolatileCursors,
    /// What was taken over and not handed out yet.
    ready: VecDeque<Incoming>,
    /// Whether something may be missing.
    must_pull: bool,
    /// Whether to say so when nothing is missing any more.
    catching_up: bool,
    /// Pulls that failed since one succeeded.
    failed_pulls: u32,
}

impl Client {
    /// Each message for this agent once, in order: first what is in the inbox and not acknowledged, then what arrives.
    pub fn messages(&self) -> Messages {
        Messages::new(self.clone(), None)
    }

    /// The same from a cursor that the program has kept: each message after this seq.
    pub fn messages_after(&self, seq: u64) -> Messages {
        Messages::new(self.clone(), Some(seq))
    }
}

impl Messages {
    fn new(client: Client, after: Option<u64>) -> Messages {
        let queue = client.readers().subscribe();
        Messages {
            client,
            queue,
            seen: after,
            handed_out: after.unwrap_or_default(),
            acknowledged: after.unwrap_or_default(),
            encrypted_seen: after.unwrap_or_default(),
            volatile: VolatileCursors::default(),
            ready: VecDeque::new(),
            must_pull: true,
            catching_up: true,
            failed_pulls: 0,
        }
    }

    /// The next message, however long it takes. Fails only with the error that ended the client. May be dropped and called again.
    pub async fn next(&mut self) -> Result<IncomingMessage, Error> {
        loop {
            if let Incoming::Message(message) = self.next_incoming().await?
                && !message.is_recall()
            {
                return Ok(message);
            }
        }
    }

    /// The same, with everything else that happens: recalls, other events, and how it is with the connection.
    pub async fn next_incoming(&mut self) -> Result<Incoming, Error> {
        loop {
            if let Some(incoming) = self.ready.pop_front() {
                self.note(&incoming);
                return Ok(incoming);
            }
            // Without a connection nothing can be called; the notice of the next one, or of the end, will be in the queue.
            let is_connected = self.client.is_connected();
            // Whoever asks for more is done with what was handed out. One acknowledgement for all events that came together; one
            // that fails is made up for by the next.
            if is_connected
                && (self.must_pull || self.queue.is_empty())
                && let Err(error) = self.acknowledge().await
                && !error.is_transient()
            {
                return Err(error);
            }
            if is_connected && self.must_pull {
                self.pull().await?;
            } else {
                let notice = self.queue.next().await;
                self.take_notice(notice)?;
            }
        }
    }

    /// The same messages as a [`Stream`], which ends behind the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<IncomingMessage, Error>> {
        try_unfold(self, |mut messages| async { Ok(Some((messages.next().await?, messages))) })
    }

    /// Acknowledges what was handed out: the server gives it no more, and tells the senders.
    pub async fn acknowledge(&mut self) -> Result<(), Error> {
        let cursors = self.volatile.unacknowledged();
        if self.handed_out <= self.acknowledged && cursors.is_empty() {
            return Ok(());
        }
        let (seq, many) = (self.handed_out, cursors.len());
        let volatile_cursors = (many > 0).then(|| cursors.to_vec());
        let ack = Ack { seq: Seq::try_from(seq.cast_signed()).ok(), volatile_cursors, ..Ack::default() };
        self.client.request(&ack).await?;
        self.acknowledged = seq;
        self.volatile.acknowledged(many);
        Ok(())
    }

    /// Takes over one page. Where that fails for now, a pause comes first, and whatever is published meanwhile.
    async fn pull(&mut self) -> Result<(), Error> {
        match self.page().await {
            Ok(page) => {
                self.failed_pulls = 0;
                self.take_page(&page);
                return Ok(());
            }
            Err(error) if !error.is_transient() => return Err(error),
            Err(_) => self.failed_pulls += 1,
        }
        tokio::select! {
            () = sleep(pause(self.failed_pulls - 1)) => Ok(()),
            notice = self.queue.next() => self.take_notice(notice),
        }
    }

    /// A page as it came: a row with a member that this client does not know must not stop the inbox.
    async fn page(&mut self) -> Result<Value, Error> {
        let after = match self.seen {
            Some(seen) => seen,
            None => {
                let first = self.client.call("message.pull", &json!({ "after_seq": 0, "limit": 1 })).await?;
                let after = first["server_ack_seq"].as_u64().unwrap_or_default();
                (self.handed_out, self.acknowledged, self.encrypted_seen) = (after, after, after);
                *self.seen.insert(after)
            }
        };
        self.client.call("message.pull", &json!({ "after_seq": after, "limit": PAGE })).await
    }

    fn take_page(&mut self, page: &Value) {
        let mut more_volatile = false;
        for row in page["messages"].as_array().into_iter().flatten() {
            more_volatile |= self.take_row(row.clone());
        }
        // A page leaves out encrypted messages, and says how far it goes all the same.
        self.seen = self.seen.max(page["latest_seq"].as_u64());
        more_volatile &= page["volatile_has_more"] == true;
        self.must_pull = page["has_more"] == true || more_volatile;
        if self.ready.is_empty() {
            self.handed_out = self.seen();
        }
        if !self.must_pull && self.catching_up {
            self.catching_up = false;
            self.ready.push_back(Incoming::CaughtUp);
        }
    }

    fn take_notice(&mut self, notice: Notice) -> Result<(), Error> {
        match notice {
            Notice::Event(event) => self.take_event(&event),
            Notice::Missed => self.must_pull = true,
            Notice::Connected => (self.must_pull, self.catching_up) = (true, true),
            Notice::Disconnected(error, retry_in) => {
                self.ready.push_back(Incoming::Disconnected { error, retry_in });
            }
            Notice::Ended(error) => return Err(error),
        }
        Ok(())
    }

    fn take_event(&mut self, event: &ReceivedEvent) {
        let is_message = matches!(event.method.as_str(), RECEIVED | RECALLED);
        let is_encrypted = event.method == ENCRYPTED;
        let seq = event.params["seq"].as_u64().filter(|_| is_message || is_encrypted);
        if seq.is_some_and(|seq| seq > self.seen() + 1) {
            self.must_pull = true;
        }
        if is_encrypted {
            if seq.is_some_and(|seq| seq <= self.encrypted_seen) {
                return;
            }
            self.encrypted_seen = seq.unwrap_or(self.encrypted_seen);
        } else if seq.is_some_and(|seq| self.must_pull || seq <= self.seen()) {
            // The pull brings it, or brought it.
            return;
        }
        match event.method.as_str() {
            RECEIVED => drop(self.take_row(event.params.clone())),
            _ => self.ready.push_back(Incoming::Event(event.clone())),
        }
        if !self.must_pull {
            self.seen = self.seen.max(seq);
        }
    }

    /// Takes over a message, and says whether it is a volatile one that was not there before.
    fn take_row(&mut self, row: Value) -> bool {
        let cursor = row["volatile_cursor"].as_str();
        if cursor.is_some_and(|cursor| !self.volatile.is_new(cursor)) {
            return false;
        }
        let is_volatile = cursor.is_some();
        self.ready.push_back(Incoming::Message(IncomingMessage::new(row)));
        is_volatile
    }

    /// What is handed out now will be acknowledged. Behind the last of what is ready that is everything that was taken over.
    fn note(&mut self, incoming: &Incoming) {
        if let Incoming::Message(message) = incoming {
            self.handed_out = self.handed_out.max(message.seq().unwrap_or_default());
            self.volatile.handed_out(message.volatile_cursor());
        }
        if self.ready.is_empty() {
            self.handed_out = self.handed_out.max(self.seen());
        }
    }

    fn seen(&self) -> u64 {
        self.seen.unwrap_or_default()
    }
}
