//! Reading pages: of a frozen snapshot, of the log, and of what the index is made from.

use super::Store;
use sqlx::Any;

/// Rows that are read at once where the documents come along.
const CHUNK: i64 = 100;
/// How many bytes of documents are in one page, at most a little more.
const PAGE_BYTES: usize = 512 << 10;

/// An entry of a snapshot.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ListedRow {
    pub aid: String,
    pub source_ap: String,
    pub signed: i64,
    pub sha256: String,
    pub updated_at: i64,
    /// Where it was asked for.
    pub content: Option<String>,
}

/// An entry of the log, with the document as it is now.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ChangedRow {
    pub sequence: i64,
    pub op: String,
    pub aid: String,
    pub updated_at: i64,
    pub signed: Option<i64>,
    pub sha256: Option<String>,
    pub source_ap: Option<String>,
    /// Where it was asked for.
    pub content: Option<String>,
}

/// A document for the index.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct IndexRow {
    pub aid: String,
    pub source_ap: String,
    pub signed: i64,
    pub content: String,
    pub updated_at: i64,
    pub manifest_words: Option<String>,
}

/// What a reader gets to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// An agent: everything that is listed.
    Agent,
    /// The directory of another domain: what is ours, with the documents.
    Directory,
}

impl Reader {
    fn least_own(self) -> i64 {
        i64::from(self == Reader::Directory)
    }
}

impl Store {
    /// The entries of a snapshot after an AID, and whether there are more.
    pub async fn snapshot_page(
        &self,
        cut: i64,
        after: &str,
        limit: i64,
        reader: Reader,
    ) -> sqlx::Result<(Vec<ListedRow>, bool)> {
        let mut rows: Vec<ListedRow> = Vec::new();
        let (mut after, mut bytes) = (after.to_owned(), 0);
        loop {
            let wanted = limit - rows.len() as i64;
            let chunk = if reader == Reader::Directory { wanted.min(CHUNK) } else { wanted };
            let mut more = self.snapshot_rows(cut, &after, chunk + 1, reader).await?;
            let is_more = more.len() as i64 > chunk;
            more.truncate(usize::try_from(chunk).unwrap_or_default());
            bytes += more.iter().filter_map(|row| row.content.as_ref()).map(String::len).sum::<usize>();
            rows.append(&mut more);
            if !is_more || rows.len() as i64 >= limit || bytes >= PAGE_BYTES {
                return Ok((rows, is_more));
            }
            after = rows.last().map_or(after, |row| row.aid.clone());
        }
    }

    async fn snapshot_rows(
        &self,
        cut: i64,
        after: &str,
        most: i64,
        reader: Reader,
    ) -> sqlx::Result<Vec<ListedRow>> {
        let text = match reader {
            Reader::Agent => {
                "SELECT aid, source_ap, signed, sha256, updated_at, NULL AS content FROM listing
                 WHERE aid > $2 AND valid_from <= $1 AND valid_to > $1 AND own >= $4 ORDER BY aid LIMIT $3"
            }
            Reader::Directory => {
                "SELECT listing.aid, listing.source_ap, listing.signed, listing.sha256, listing.updated_at,
                     COALESCE(listing.content, document.content) AS content
                 FROM listing LEFT JOIN document ON document.aid = listing.aid
                 WHERE listing.aid > $2 AND valid_from <= $1 AND valid_to > $1 AND listing.own >= $4
                 ORDER BY listing.aid LIMIT $3"
            }
        };
        sqlx::query_as::<Any, ListedRow>(text)
            .bind(cut)
            .bind(after)
            .bind(most)
            .bind(reader.least_own())
            .fetch_all(self.db.read())
            .await
    }

    /// The entries of the log after a sequence and up to another one, and whether there are more. What was listed and is not any
    /// more is deleted by a later entry, so an entry without a document is left out.
    pub async fn log_page(
        &self,
        after: i64,
        head: i64,
        limit: i64,
        reader: Reader,
    ) -> sqlx::Result<(Vec<ChangedRow>, bool)> {
        let mut rows: Vec<ChangedRow> = Vec::new();
        let (mut after, mut bytes) = (after, 0);
        loop {
            let wanted = limit - rows.len() as i64;
            let chunk = if reader == Reader::Directory { wanted.min(CHUNK) } else { wanted };
            let mut more = self.log_rows(after, head, chunk + 1, reader).await?;
            let is_more = more.len() as i64 > chunk;
            more.truncate(usize::try_from(chunk).unwrap_or_default());
            bytes += more.iter().filter_map(|row| row.content.as_ref()).map(String::len).sum::<usize>();
            rows.append(&mut more);
            if !is_more || rows.len() as i64 >= limit || bytes >= PAGE_BYTES {
                return Ok((rows, is_more));
            }
            after = rows.last().map_or(after, |row| row.sequence);
        }
    }

    async fn log_rows(
        &self,
        after: i64,
        head: i64,
        most: i64,
        reader: Reader,
    ) -> sqlx::Result<Vec<ChangedRow>> {
        let text = match reader {
            Reader::Agent => {
                "SELECT sequence, op, change_log.aid, change_log.updated_at, signed, sha256, source_ap, NULL AS content
                 FROM change_log LEFT JOIN document ON document.aid = change_log.aid AND listed = 1
                 WHERE sequence > $1 AND sequence <= $2 AND change_log.own >= $4 ORDER BY sequence LIMIT $3"
            }
            Reader::Directory => {
                "SELECT sequence, op, change_log.aid, change_log.updated_at, signed, sha256, source_ap, content
                 FROM change_log LEFT JOIN document ON document.aid = change_log.aid AND listed = 1
                 WHERE sequence > $1 AND sequence <= $2 AND change_log.own >= $4 ORDER BY sequence LIMIT $3"
            }
        };
        sqlx::query_as::<Any, ChangedRow>(text)
            .bind(after)
            .bind(head)
            .bind(most)
            .bind(reader.least_own())
            .fetch_all(self.db.read())
            .await
    }

    /// The AIDs that changed after a sequence and up to another one, each once; at most so many entries are looked at. With the
    /// sequence that was reached.
    pub async fn changed_aids(&self, after: i64, head: i64, most: i64) -> sqlx::Result<(Vec<String>, i64)> {
        let rows: Vec<(i64, String)> = sqlx::query_as(
            "SELECT sequence, aid FROM change_log WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence LIMIT $3",
        )
        .bind(after)
        .bind(head)
        .bind(most)
        .fetch_all(self.db.read())
        .await?;
        let reached = if (rows.len() as i64) < most {
            head
        } else {
            rows.last().map_or(head, |(sequence, _)| *sequence)
        };
        let mut aids: Vec<String> = rows.into_iter().map(|(_, aid)| aid).collect();
        aids.sort();
        aids.dedup();
        Ok((aids, reached))
    }

    pub async fn index_row(&self, aid: &str) -> sqlx::Result<Option<IndexRow>> {
        sqlx::query_as::<Any, IndexRow>(
            "SELECT aid, source_ap, signed, content, updated_at, manifest_words FROM document WHERE aid = $1 AND listed = 1",
        )
        .bind(aid)
        .fetch_optional(self.db.read())
        .await
    }

    /// All listed documents, page by page.
    pub async fn index_rows(&self, after: &str, most: i64) -> sqlx::Result<Vec<IndexRow>> {
        sqlx::query_as::<Any, IndexRow>(
            "SELECT aid, source_ap, signed, content, updated_at, manifest_words FROM document WHERE aid > $1 AND listed = 1
             ORDER BY aid LIMIT $2",
        )
        .bind(after)
        .bind(most)
        .fetch_all(self.db.read())
        .await
    }
}
