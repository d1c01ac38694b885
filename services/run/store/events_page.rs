//! Pages of the log of a run, with all events or with those of some types.

use super::Store;
use super::pages::end_of_page;
use kernel::json_rows as json;
use proto_schemas::requests::run::RunEventType;
use sqlx::{Any, AssertSqlSafe};

/// How far one call looks for events of the wanted types. A page may be empty and not the last one.
const WINDOW: i64 = 5000;

/// Some events of a run, and where the next page begins.
pub(crate) struct PagedEvents {
    pub events: Vec<PagedEvent>,
    pub last_seq: i64,
    pub next_after_seq: i64,
}

#[derive(sqlx::FromRow)]
pub(crate) struct PagedEvent {
    pub seq: i64,
    pub kind: String,
    pub command_id: Option<String>,
    pub attempt_id: Option<String>,
    pub payload: String,
    pub created_at: i64,
}

impl Store {
    /// The events after a seq, of these types or of all if there are none. The seqs of a run have no gaps, and what is appended while
    /// this reads is left for the next page: so where the page ends is known also where its last events are of other types.
    pub async fn events_page(
        &self,
        run_id: &str,
        after_seq: i64,
        limit: i64,
        kinds: &[RunEventType],
    ) -> sqlx::Result<PagedEvents> {
        let last_seq: Option<i64> = sqlx::query_scalar("SELECT last_seq FROM run WHERE id = $1")
            .bind(run_id)
            .fetch_optional(self.db.read())
            .await?;
        let last_seq = last_seq.unwrap_or_default();
        let window_end = last_seq.min(after_seq.saturating_add(WINDOW)).max(after_seq);
        let mut page = PagedEvents { events: Vec::new(), last_seq, next_after_seq: window_end };
        if window_end == after_seq {
            return Ok(page);
        }

        let kinds = json::text(&kinds)?;
        let end = self.end_of_page(run_id, (after_seq, window_end), limit, &kinds).await?;
        page.next_after_seq = end.unwrap_or(window_end);
        let text = format!(
            "SELECT seq, kind, command_id, attempt_id, payload, created_at FROM run_event
             WHERE run_id = $1 AND seq > $2 AND seq <= $3 AND {} ORDER BY seq",
            self.is_wanted()
        );
        page.events = sqlx::query_as::<Any, _>(AssertSqlSafe(text))
            .bind(run_id)
            .bind(after_seq)
            .bind(page.next_after_seq)
            .bind(kinds)
            .fetch_all(self.db.read())
            .await?;
        Ok(page)
    }

    /// The seq of the last event of a page that has not all of a window; none if it has. Sizes are read without the payloads.
    async fn end_of_page(
        &self,
        run_id: &str,
        (after_seq, window_end): (i64, i64),
        limit: i64,
        kinds: &str,
    ) -> sqlx::Result<Option<i64>> {
        let text = format!(
            "SELECT seq, CAST(octet_length(payload) AS BIGINT) AS bytes FROM run_event
             WHERE run_id = $1 AND seq > $2 AND seq <= $3 AND {} ORDER BY seq LIMIT $5",
            self.is_wanted()
        );
        let sizes: Vec<(i64, i64)> = sqlx::query_as::<Any, _>(AssertSqlSafe(text))
            .bind(run_id)
            .bind(after_seq)
            .bind(window_end)
            .bind(kinds)
            // One more tells whether there is another page.
            .bind(limit.saturating_add(1))
            .fetch_all(self.db.read())
            .await?;
        Ok(end_of_page(&sizes, limit))
    }

    /// Whether an event is of one of the types in the list of the fourth parameter; an empty list is all of them.
    fn is_wanted(&self) -> String {
        format!("($4 = '[]' OR kind IN {})", json::texts(self.db.engine(), 4))
    }
}
