//! `search.changes`: what changed in the directory since a cursor.

use super::cursor::ChangeCursor;
use super::store::ChangedRow;
use super::store::pages::Reader;
use super::{Error, SearchService};
use kernel::{Caller, PageLimit, iso};
use proto_schemas::requests::search::{Changes, ChangesPage, LoggedChange};
use std::collections::HashSet;
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(200, 1000);

impl SearchService {
    pub(super) async fn changes(
        self: Arc<Self>,
        caller: Caller,
        params: Changes,
    ) -> Result<ChangesPage, Error> {
        self.enabled()?;
        let limit = PAGE.of(params.limit)?;
        let cursor = params.cursor.as_deref().map(ChangeCursor::parse).transpose()?;
        let reader = self.reader(&caller).await?;

        // The head is read first: whatever is up to it was committed with it.
        let before = self.store.state().await?;
        let from = match cursor {
            Some(cursor) if cursor.0 > before.sequence => {
                return Err(self.expired(before.floor, "unknown_epoch").await?);
            }
            Some(cursor) => cursor,
            None if before.floor > 0 => return Err(self.expired(before.floor, "cursor_missing").await?),
            None => ChangeCursor(0),
        };
        let (rows, has_more) = self.store.log_page(from.0, before.sequence, limit, reader).await?;
        // The floor is read last: what was removed while the page was read may be missing in it.
        let floor = self.store.state().await?.floor;
        if from.0 < floor {
            return Err(self.expired(floor, "cursor_expired").await?);
        }

        let examined = rows.last().filter(|_| has_more).map_or(before.sequence, |row| row.sequence);
        Ok(ChangesPage {
            from_cursor: from.to_string(),
            next_cursor: ChangeCursor(examined).to_string(),
            changes: latest_of_each(rows).into_iter().map(|row| change(row, reader)).collect(),
            has_more,
        })
    }

    async fn expired(&self, floor: i64, reason: &'static str) -> Result<Error, Error> {
        let snapshot = self.snapshot_versions().await?.into_iter().next().unwrap_or_default();
        Ok(Error::CursorExpired { floor: ChangeCursor(floor).to_string(), snapshot, reason })
    }
}

/// One entry for each AID, and none for a document that was listed and is not any more: its deletion has a higher number.
fn latest_of_each(rows: Vec<ChangedRow>) -> Vec<ChangedRow> {
    let mut seen = HashSet::new();
    let mut latest: Vec<ChangedRow> =
        rows.into_iter().rev().filter(|row| seen.insert(row.aid.clone())).collect();
    latest.reverse();
    latest.retain(|row| row.op == "delete" || row.sha256.is_some());
    latest
}

fn change(row: ChangedRow, reader: Reader) -> LoggedChange {
    let upsert = row.op == "upsert";
    let with_document = upsert && reader == Reader::Directory;
    LoggedChange {
        sequence: row.sequence,
        op: row.op,
        aid: row.aid,
        updated_at: iso(row.updated_at),
        agent_md_sha256: row.sha256.filter(|_| upsert),
        agent_md: row.content.filter(|_| with_document),
        signed: row.signed.filter(|_| with_document).map(|signed| signed == 1),
        source_ap: row.source_ap.filter(|_| with_document),
    }
}
