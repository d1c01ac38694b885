//! Pages of the log of a run.

use super::Store;
use super::row::{StoredEvent, damaged};
use crate::ids::event_id;
use kernel::iso;
use proto_schemas::requests::run::{RunEvent, RunEventPage, RunEventType};
use serde_json::value::RawValue;
use sqlx::{Any, AssertSqlSafe};

/// Payloads of one page: what comes after them is on the next one.
const PAGE_BYTES: usize = 1 << 20;

/// Which events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventsWanted<'a> {
    pub run_id: &'a str,
    pub after_seq: i64,
    pub limit: i64,
    /// Only those of these types.
    pub kinds: Option<&'a [RunEventType]>,
}

impl Store {
    /// Some events in their order. `last_seq` is that of the run, as it was read before.
    pub async fn events_page(&self, wanted: &EventsWanted<'_>, last_seq: i64) -> sqlx::Result<RunEventPage> {
        let rows = self.event_rows(wanted, wanted.limit + 1).await?;
        let (mut events, mut bytes, mut has_more) = (Vec::new(), 0, false);
        let most = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
        for row in rows {
            if events.len() == most || (bytes >= PAGE_BYTES && !events.is_empty()) {
                has_more = true;
                break;
            }
            bytes += row.payload.len();
            events.push(shown(wanted.run_id, row)?);
        }
        let last_shown = events.last().map_or(wanted.after_seq, |event: &RunEvent| event.seq);
        // Where all is seen, the events of other types are not looked through again.
        let last_seq = last_seq.max(last_shown);
        let next_after_seq = if has_more { last_shown } else { last_seq.max(wanted.after_seq) };
        let next_after_seq = match wanted.kinds {
            Some(_) => next_after_seq,
            None => last_shown,
        };
        Ok(RunEventPage { events, last_seq, next_after_seq, has_more })
    }

    /// Rows as they are stored.
    pub async fn event_rows(&self, wanted: &EventsWanted<'_>, limit: i64) -> sqlx::Result<Vec<StoredEvent>> {
        let kinds = wanted.kinds.map(|kinds| {
            let names: Vec<String> = kinds.iter().map(|kind| format!("'{}'", kind_word(*kind))).collect();
            format!("AND kind IN ({})", names.join(", "))
        });
        let text = format!(
            "SELECT seq, kind, command_id, attempt_id, payload, created_at FROM run_event
             WHERE run_id = $1 AND seq > $2 {} ORDER BY seq LIMIT $3",
            kinds.unwrap_or_default()
        );
        sqlx::query_as::<Any, StoredEvent>(AssertSqlSafe(text))
            .bind(wanted.run_id.to_owned())
            .bind(wanted.after_seq)
            .bind(limit)
            .fetch_all(self.db.read())
            .await
    }
}

/// An event as everybody sees it. It was redacted before it was stored.
fn shown(run_id: &str, row: StoredEvent) -> sqlx::Result<RunEvent> {
    Ok(RunEvent {
        event_id: event_id(run_id, row.seq),
        run_id: run_id.to_owned(),
        seq: row.seq,
        kind: kind_of(&row.kind)?,
        command_id: row.command_id,
        attempt_id: row.attempt_id,
        payload: RawValue::from_string(row.payload).map_err(damaged)?,
        created_at: iso(row.created_at),
    })
}

pub(crate) fn kind_of(word: &str) -> sqlx::Result<RunEventType> {
    serde_json::from_value(word.into()).map_err(damaged)
}

pub(crate) fn kind_word(kind: RunEventType) -> String {
    serde_json::to_value(kind).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
