//! Which destinations are sent to next, and which at the same time.

use super::{Outbox, OutboxSettings};
use parking_lot::Mutex;
use sqlx::{Any, AssertSqlSafe};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// How many destinations are looked for, for each that is sent to at once.
const LOOK_AHEAD: usize = 4;

/// A destination for which something is due.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct DueDestination {
    pub destination: String,
    /// Empty where destinations belong to nobody.
    pub owner: String,
    /// 1 if what was sent last was delivered.
    pub answered: i64,
}

/// The destinations that are being sent to, by one outbox or by several that share its limits.
#[derive(Default)]
pub struct SendSlots {
    busy: Mutex<HashMap<String, DueDestination>>,
    /// For the other outboxes that share them.
    pub(super) freed: Notify,
}

/// That a destination is being sent to, until this is dropped.
pub struct SendSlot {
    slots: Arc<SendSlots>,
    destination: String,
}

impl SendSlots {
    /// A slot for something that is sent beside the outboxes, to a destination of this owner that need not answer.
    pub fn take_alone(
        self: &Arc<SendSlots>,
        destination: &str,
        owner: &str,
        settings: &OutboxSettings,
    ) -> Option<SendSlot> {
        let (destination, owner) = (destination.to_owned(), owner.to_owned());
        self.take(&DueDestination { destination, owner, answered: 0 }, settings)
    }

    /// Takes a slot for a destination. `None` if it has one, or if it is not its turn: those that are sent to now are too many in all,
    /// too many of its owner, or too many that did not answer last time.
    pub(super) fn take(
        self: &Arc<SendSlots>,
        due: &DueDestination,
        settings: &OutboxSettings,
    ) -> Option<SendSlot> {
        let mut busy = self.busy.lock();
        if busy.len() >= settings.at_once || busy.contains_key(&due.destination) {
            return None;
        }
        if let Some(owned) = settings.owned {
            let of_owner = busy.values().filter(|busy| busy.owner == due.owner).count();
            let silent = busy.values().filter(|busy| busy.answered == 0).count();
            let kept = settings.at_once.saturating_sub(owned.kept_for_answering);
            if of_owner >= owned.at_once || (due.answered == 0 && silent >= kept) {
                return None;
            }
        }
        busy.insert(due.destination.clone(), due.clone());
        Some(SendSlot { slots: self.clone(), destination: due.destination.clone() })
    }

    pub(super) fn is_busy(&self, destination: &str) -> bool {
        self.busy.lock().contains_key(destination)
    }
}

impl Drop for SendSlot {
    fn drop(&mut self) {
        self.slots.busy.lock().remove(&self.destination);
        self.slots.freed.notify_waiters();
    }
}

impl Outbox {
    /// The names of the destinations that are sent to next.
    pub async fn due(&self) -> sqlx::Result<Vec<String>> {
        let due = self.due_destinations().await?;
        Ok(due.into_iter().map(|due| due.destination).collect())
    }

    /// The destinations for which something is due, and that may be tried now; those that wait the longest first. Where destinations
    /// have owners, the first of each owner come before the second of any, and as many are looked for of those that answered last
    /// time as of others: neither hides the other.
    ///
    /// Found by the index, one step for each destination, however much waits for it.
    pub(super) async fn due_destinations(&self) -> sqlx::Result<Vec<DueDestination>> {
        let now = self.clock.now_ms();
        let (rows, destinations) = (&self.tables.rows, &self.tables.destinations);
        let (owner, answered) = match self.settings.owned {
            // The first entry of an index that begins with both.
            Some(_) => (
                format!(
                    "(SELECT MIN(first.owner) FROM {rows} AS first WHERE first.destination = waiting.destination)"
                ),
                "COALESCE(state.answered, 0)",
            ),
            None => ("''".to_owned(), "0"),
        };
        let text = format!(
            "WITH RECURSIVE waiting(destination) AS (
                 SELECT MIN(destination) FROM {rows}
                 UNION ALL
                 SELECT (SELECT MIN({rows}.destination) FROM {rows} WHERE {rows}.destination > waiting.destination)
                 FROM waiting WHERE waiting.destination IS NOT NULL),
             due AS (
                 SELECT waiting.destination, COALESCE(state.next_try, 0) AS next_try, {owner} AS owner, {answered} AS answered
                 FROM waiting LEFT JOIN {destinations} AS state ON state.destination = waiting.destination
                 WHERE waiting.destination IS NOT NULL
                     AND COALESCE(state.next_try, 0) <= $1 AND COALESCE(state.leased_until, 0) <= $1
                     AND EXISTS (SELECT 1 FROM {rows} AS due
                                 WHERE due.destination = waiting.destination AND due.position <= $2)),
             turns AS (
                 SELECT destination, next_try, owner, answered,
                     ROW_NUMBER() OVER (PARTITION BY answered, owner ORDER BY next_try, destination) AS turn
                 FROM due),
             shown AS (
                 SELECT destination, next_try, owner, answered, turn,
                     ROW_NUMBER() OVER (PARTITION BY answered ORDER BY turn, next_try, destination) AS nth
                 FROM turns WHERE turn <= $3)
             SELECT destination, owner, CAST(answered AS BIGINT) AS answered FROM shown WHERE nth <= $4
             ORDER BY turn, next_try, destination"
        );
        let looked_for = self.settings.at_once * LOOK_AHEAD;
        let of_owner = self.settings.owned.map_or(looked_for, |owned| owned.at_once);
        sqlx::query_as::<Any, DueDestination>(AssertSqlSafe(text))
            .bind(now)
            .bind(self.due_until(now))
            .bind(i64::try_from(of_owner).unwrap_or(i64::MAX))
            .bind(i64::try_from(looked_for).unwrap_or(i64::MAX))
            .fetch_all(self.db.read())
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackoffSchedule, OwnedDestinations, Retry, RowKind};
    use std::time::Duration;

    const SCHEDULE: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(1), Duration::from_secs(1));

    fn due(owner: &str, number: usize, answered: i64) -> DueDestination {
        DueDestination { destination: format!("{owner}{number}"), owner: owner.to_owned(), answered }
    }

    #[test]
    fn one_owner_has_few_slots_and_half_of_them_are_kept_for_those_that_answer() {
        let retry = Retry::Destination { schedule: SCHEDULE, demand: None };
        let settings = OutboxSettings {
            at_once: 8,
            owned: Some(OwnedDestinations { at_once: 3, kept_for_answering: 4 }),
            ..OutboxSettings::new("test", RowKind::Payload, retry)
        };
        let slots = Arc::<SendSlots>::default();
        let mut held = Vec::new();
        let mut taken = |owner: &str, answered: i64| {
            let before = held.len();
            held.extend((0..10).filter_map(|number| slots.take(&due(owner, number, answered), &settings)));
            held.len() - before
        };
        assert_eq!((taken("mallory", 0), taken("mallory", 0)), (3, 0));
        assert_eq!((taken("eve", 0), taken("trent", 0)), (1, 0), "four that do not answer in all");
        assert_eq!((taken("alice", 1), taken("bob", 1)), (3, 1), "eight in all");
        assert!(slots.is_busy("mallory0"));
        drop(held.remove(0));
        assert!(!slots.is_busy("mallory0") && slots.take(&due("trent", 0, 0), &settings).is_some());
    }
}
