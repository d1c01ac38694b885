//! `message.thought.*`: what an agent thinks while it works, for one other agent to read. Stored for a while: no seq, no
//! event, nothing to catch up with.

pub(super) mod get;
pub(super) mod put;
#[cfg(test)]
mod tests;

use super::MessageService;
use super::store::bind::json;
use super::store::ephemeral::bounded::{BoundedRows, RowCost, RowLimits};
use super::store::ephemeral::shared_rows::{self, NewSharedRow, RowList};
use kernel::{Aid, BytesOwner, sha256_hex};
use parking_lot::Mutex;
use proto_schemas::requests::message::thought::{Thought, ThoughtContext};
use std::sync::Arc;

/// The kind of its lists on PostgreSQL, as it is stored.
pub(super) const ROWS: &str = "thought";
/// The newest hundred contexts of a sender are stored.
const MAX_CONTEXTS: usize = 100;
const MAX_SENDER_BYTES: usize = 8 << 20;
/// What one context may have. It is read in one answer, and the oldest clients accept no frame above a MiB.
const MAX_ITEMS: usize = 100;
const MAX_BYTES: usize = 900_000;

pub(super) struct Thoughts {
    limits: RowLimits,
    /// The domain of this server.
    issuer: String,
    lists: Mutex<BoundedRows<Aid, ThoughtList>>,
}

/// The thoughts of one sender for one peer about one context.
#[derive(Clone)]
struct ThoughtList {
    peer: Aid,
    context: ThoughtContext,
    items: Vec<Arc<Thought>>,
    updated_at: i64,
}

impl Thoughts {
    pub fn new(issuer: &str, total_bytes: usize) -> Thoughts {
        let limits = RowLimits { rows: MAX_CONTEXTS, bytes: MAX_SENDER_BYTES, total_bytes };
        Thoughts { limits, issuer: issuer.to_owned(), lists: Mutex::new(BoundedRows::new(limits)) }
    }

    /// Gives how many thoughts there are now. One that is sent again replaces the earlier one where it was.
    fn put(&self, thought: Thought) -> usize {
        let (sender, updated_at) = (thought.from.clone(), thought.created_at);
        let mut lists = self.lists.lock();
        let stored = lists.after(&sender, 0, 0).find(|(_, list)| list.is(&thought.to, &thought.context));
        let stored = stored.map(|(id, _)| id).and_then(|id| lists.remove(&sender, id));
        let mut list = stored.unwrap_or_else(|| ThoughtList::new(&thought));
        list.updated_at = updated_at;
        list.add(thought);
        let (count, cost) = (list.items.len(), self.cost(&sender, &list));
        lists.put(&sender, i64::MAX, cost, list);
        count
    }

    pub fn remove_agent(&self, sender: &Aid) {
        self.lists.lock().remove_key(sender);
    }

    fn cost(&self, sender: &Aid, list: &ThoughtList) -> RowCost {
        RowCost { owner: BytesOwner::of_sender(sender, &self.issuer), bytes: list.bytes() }
    }

    fn get(&self, sender: &Aid, peer: &Aid, context: &ThoughtContext) -> Option<ThoughtList> {
        let lists = self.lists.lock();
        lists.after(sender, 0, 0).map(|(_, list)| list).find(|list| list.is(peer, context)).cloned()
    }
}

/// A list as it is stored on PostgreSQL: when it was updated, and its thoughts.
type StoredThoughts = (i64, Vec<Thought>);

impl MessageService {
    async fn store_thought(&self, thought: Thought) -> sqlx::Result<usize> {
        let Some(shared) = &self.shared else { return Ok(self.thoughts.put(thought)) };
        let (sender, now) = (thought.from.clone(), thought.created_at);
        let name = name(&thought.to, &thought.context);
        let rows_of_sender = RowList { kind: ROWS, key: sender.as_str() };
        let mut tx = shared.lock(rows_of_sender).await?;
        let rows = shared_rows::rows(&mut tx, rows_of_sender, Some(&name)).await?;
        let mut list = ThoughtList::new(&thought);
        list.items = rows.last().map(|row| items(&row.data)).transpose()?.unwrap_or_default().1;
        list.add(thought);
        let replaced: Vec<u64> = rows.iter().map(|row| row.id.unsigned_abs()).collect();
        shared_rows::remove(&mut tx, rows_of_sender, &replaced).await?;
        let data = json(&(now, &list.items));
        let cost = self.thoughts.cost(&sender, &list);
        let row = NewSharedRow { name: &name, until: i64::MAX, cost, data };
        shared_rows::insert(&mut tx, rows_of_sender, row, &self.thoughts.limits, now).await?;
        tx.commit().await?;
        Ok(list.items.len())
    }

    async fn find_thoughts(
        &self,
        sender: &Aid,
        peer: &Aid,
        context: &ThoughtContext,
    ) -> sqlx::Result<Option<ThoughtList>> {
        let Some(shared) = &self.shared else { return Ok(self.thoughts.get(sender, peer, context)) };
        let rows_of_sender = RowList { kind: ROWS, key: sender.as_str() };
        let mut connection = shared.reader().await?;
        let rows = shared_rows::rows(&mut connection, rows_of_sender, Some(&name(peer, context))).await?;
        let Some(row) = rows.last() else { return Ok(None) };
        let (updated_at, items) = items(&row.data)?;
        Ok(Some(ThoughtList { peer: peer.clone(), context: context.clone(), items, updated_at }))
    }
}

fn items(data: &str) -> sqlx::Result<(i64, Vec<Arc<Thought>>)> {
    let (updated_at, items): StoredThoughts =
        serde_json::from_str(data).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok((updated_at, items.into_iter().map(Arc::new).collect()))
}

/// One text for a peer and a context, whatever characters are in them.
fn name(peer: &Aid, context: &ThoughtContext) -> String {
    sha256_hex(json(&(peer, context)))
}

impl ThoughtList {
    fn new(first: &Thought) -> ThoughtList {
        ThoughtList {
            peer: first.to.clone(),
            context: first.context.clone(),
            items: Vec::new(),
            updated_at: 0,
        }
    }

    fn is(&self, peer: &Aid, context: &ThoughtContext) -> bool {
        self.peer == *peer && self.context == *context
    }

    fn add(&mut self, thought: Thought) {
        match self.items.iter_mut().find(|item| item.thought_id == thought.thought_id) {
            Some(earlier) => *earlier = Arc::new(thought),
            None => self.items.push(Arc::new(thought)),
        }
        while self.items.len() > MAX_ITEMS || (self.items.len() > 1 && self.bytes() > MAX_BYTES) {
            self.items.remove(0);
        }
    }

    fn bytes(&self) -> usize {
        self.items.iter().map(|item| answer_bytes(item)).sum()
    }
}

/// How many bytes a thought takes in an answer, rather too many than too few.
fn answer_bytes(thought: &Thought) -> usize {
    let Thought { thought_id, context, from, to, payload, .. } = thought;
    // A character of a name may be written as six.
    let names = 6 * (2 * thought_id.len() + context.kind.len() + context.id.len());
    payload.get().len() + names + from.as_str().len() + to.as_str().len() + 160
}
