//! `message.thought.*`: what an agent thinks while it works, for one other agent to look at. In memory only: no number,
//! no bell, nothing to catch up with.

pub(super) mod get;
pub(super) mod put;
#[cfg(test)]
mod tests;

use super::shared::{self, Item, Place};
use super::store::json;
use super::volatile::shelf::{Limits, Shelves};
use super::{Error, Message};
use crate::kernel::Aid;
use parking_lot::Mutex;
use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A sender keeps its newest hundred contexts.
const LIMITS: Limits = Limits { rows: 100, bytes: 8 << 20, total_bytes: 128 << 20 };
/// What one context holds. It is read in one answer, and the oldest clients take no frame above a MiB.
const MOST_ITEMS: usize = 100;
const MOST_BYTES: usize = 900_000;
const LONGEST_NAME: usize = 256;

pub(super) struct Thoughts {
    heads: Mutex<Shelves<Aid, Head>>,
}

/// The thoughts of one sender for one peer about one thing.
#[derive(Clone)]
struct Head {
    peer: Aid,
    context: Context,
    items: Vec<Arc<Thought>>,
    updated_at: i64,
}

/// What the thoughts are about, such as a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Thought {
    thought_id: String,
    /// The same again, for clients that look for it here.
    message_id: String,
    context: Context,
    from: Aid,
    to: Aid,
    /// As it was written: readers verify it as a whole.
    payload: Box<RawValue>,
    created_at: i64,
}

impl Default for Thoughts {
    fn default() -> Thoughts {
        Thoughts { heads: Mutex::new(Shelves::new(LIMITS)) }
    }
}

impl Thoughts {
    /// Gives how many thoughts there are now. One that is sent again takes the place it had.
    fn put(&self, thought: Thought) -> usize {
        let (sender, updated_at) = (thought.from.clone(), thought.created_at);
        let mut heads = self.heads.lock();
        let held = heads.after(&sender, 0, 0).find(|(_, head)| head.is(&thought.to, &thought.context));
        let held = held.map(|(number, _)| number).and_then(|number| heads.remove(&sender, number));
        let mut head = held.unwrap_or_else(|| Head::new(&thought));
        head.updated_at = updated_at;
        head.add(thought);
        let (count, bytes) = (head.items.len(), head.bytes());
        heads.put(&sender, i64::MAX, bytes, head);
        count
    }

    fn get(&self, sender: &Aid, peer: &Aid, context: &Context) -> Option<Head> {
        let heads = self.heads.lock();
        heads.after(sender, 0, 0).map(|(_, head)| head).find(|head| head.is(peer, context)).cloned()
    }
}

/// What a shelf keeps of a head.
type Kept = (i64, Vec<Thought>);

impl Message {
    async fn keep_thought(&self, thought: Thought) -> sqlx::Result<usize> {
        let Some(shared) = &self.shared else { return Ok(self.thoughts.put(thought)) };
        let (sender, now) = (thought.from.clone(), thought.created_at);
        let name = name(&thought.to, &thought.context);
        let place = Place { kind: "thought", key: sender.as_str() };
        let mut tx = shared.lock(place).await?;
        let rows = shared::rows(&mut tx, place, Some(&name)).await?;
        let mut head = Head::new(&thought);
        head.items = rows.last().map(|row| items(&row.data)).transpose()?.unwrap_or_default().1;
        head.add(thought);
        let numbers: Vec<u64> = rows.iter().map(|row| row.number.unsigned_abs()).collect();
        shared::remove(&mut tx, place, &numbers).await?;
        let data = json(&(now, &head.items));
        let item = Item { name: &name, until: i64::MAX, bytes: head.bytes(), data };
        shared::put(&mut tx, place, item, &LIMITS, now).await?;
        tx.commit().await?;
        Ok(head.items.len())
    }

    async fn find_thoughts(&self, sender: &Aid, peer: &Aid, context: &Context) -> sqlx::Result<Option<Head>> {
        let Some(shared) = &self.shared else { return Ok(self.thoughts.get(sender, peer, context)) };
        let place = Place { kind: "thought", key: sender.as_str() };
        let mut connection = shared.look().await?;
        let rows = shared::rows(&mut connection, place, Some(&name(peer, context))).await?;
        let Some(row) = rows.last() else { return Ok(None) };
        let (updated_at, items) = items(&row.data)?;
        Ok(Some(Head { peer: peer.clone(), context: context.clone(), items, updated_at }))
    }
}

fn items(data: &str) -> sqlx::Result<(i64, Vec<Arc<Thought>>)> {
    let (updated_at, items): Kept =
        serde_json::from_str(data).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok((updated_at, items.into_iter().map(Arc::new).collect()))
}

/// One text for a peer and a context, whatever characters are in them.
fn name(peer: &Aid, context: &Context) -> String {
    let text = json(&(peer, context));
    hex::encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

impl Head {
    fn new(first: &Thought) -> Head {
        Head { peer: first.to.clone(), context: first.context.clone(), items: Vec::new(), updated_at: 0 }
    }

    fn is(&self, peer: &Aid, context: &Context) -> bool {
        self.peer == *peer && self.context == *context
    }

    fn add(&mut self, thought: Thought) {
        match self.items.iter_mut().find(|item| item.thought_id == thought.thought_id) {
            Some(held) => *held = Arc::new(thought),
            None => self.items.push(Arc::new(thought)),
        }
        while self.items.len() > MOST_ITEMS || (self.items.len() > 1 && self.bytes() > MOST_BYTES) {
            self.items.remove(0);
        }
    }

    fn bytes(&self) -> usize {
        self.items.iter().map(|item| item.bytes()).sum()
    }
}

impl Thought {
    /// What it weighs in an answer, rather more than less.
    fn bytes(&self) -> usize {
        let names = 2 * self.thought_id.len() + self.context.kind.len() + self.context.id.len();
        self.payload.get().len() + names + self.from.as_str().len() + self.to.as_str().len() + 160
    }
}

impl Context {
    fn check(&self) -> Result<(), Error> {
        for (name, text) in [("type", &self.kind), ("id", &self.id)] {
            if text.is_empty() || text.len() > LONGEST_NAME {
                return Err(Error::Param(format!("params.context.{name}: has 1 to {LONGEST_NAME} bytes")));
            }
        }
        Ok(())
    }
}
