//! Writing the log: a document, its versions and its log entry change in one transaction, together with how far its source was read.

use super::{STILL_VALID, Store};
use crate::document::DirectoryDocument;
use sqlx::{Any, Transaction};
use std::time::Instant;

/// How far numbering goes on when everything is read anew: every cursor that was given out before is below the floor then.
const RENUMBER_STEP: i64 = 1_000_000;

/// A transaction that changes documents. It holds the number of the log from its beginning, so that sequences become visible in
/// their order, without gaps, also where several processes write.
pub(crate) struct LogWriter {
    tx: Transaction<'static, Any>,
    sequence: i64,
    began_at_sequence: i64,
    now: i64,
    began: Instant,
}

/// What is stored of a document before it changes.
#[derive(sqlx::FromRow)]
struct Before {
    source_ap: String,
    listed: i64,
    signed: i64,
    sha256: String,
    content: String,
    manifest_version: Option<i64>,
    manifest_hash: Option<String>,
}

impl Store {
    pub async fn write_log(&self, now: i64) -> sqlx::Result<LogWriter> {
        let began = Instant::now();
        let mut tx = self.db.write().await?;
        // Changed to what it is: that locks the row on PostgreSQL, until the commit.
        let sequence =
            sqlx::query_scalar("UPDATE state SET value = value WHERE name = 'sequence' RETURNING value")
                .fetch_one(&mut *tx)
                .await?;
        Ok(LogWriter { tx, sequence, began_at_sequence: sequence, now, began })
    }

    /// Commits; returns whether the log has something new.
    pub async fn commit(&self, mut log: LogWriter) -> sqlx::Result<bool> {
        let rows = log.sequence - log.began_at_sequence;
        if rows > 0 {
            set(&mut log.tx, "sequence", log.sequence).await?;
            set(&mut log.tx, "changed_at", log.now).await?;
        }
        log.tx.commit().await?;
        let rows = usize::try_from(rows).unwrap_or_default();
        self.tally.commit(log.began.elapsed(), rows, rows);
        Ok(rows > 0)
    }
}

impl LogWriter {
    /// Puts a document in place of what is there. One that is the same in every respect is left alone.
    pub async fn upsert(
        &mut self,
        document: &DirectoryDocument,
        source_ap: &str,
        own: bool,
        pass: i64,
    ) -> sqlx::Result<()> {
        let aid = document.aid.as_str();
        let before = self.before(aid).await?;
        let manifest = document.manifest.as_ref();
        let same = before.as_ref().is_some_and(|before| {
            before.sha256 == document.sha256
                && before.manifest_version == manifest.map(|manifest| manifest.version)
                && before.manifest_hash.as_deref() == manifest.map(|manifest| manifest.hash.as_str())
                && before.source_ap == source_ap
                && (before.listed, before.signed) == (i64::from(document.listed), i64::from(document.signed))
        });
        if same {
            return self.mark(aid, pass).await;
        }
        if before.as_ref().is_some_and(|before| before.listed == 1) || document.listed {
            self.sequence += 1;
        }
        if let Some(before) = before.filter(|before| before.listed == 1) {
            self.close(aid, &before.content).await?;
            if !document.listed {
                self.log("delete", aid, own, self.now).await?;
            }
        }
        sqlx::query(
            "INSERT INTO document (aid, source_ap, own, listed, signed, content, sha256, updated_at, pass, manifest_version,
                 manifest_hash, manifest_words)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
             ON CONFLICT (aid) DO UPDATE SET source_ap = excluded.source_ap, own = excluded.own,
                 listed = excluded.listed, signed = excluded.signed, content = excluded.content,
                 sha256 = excluded.sha256, updated_at = excluded.updated_at, pass = excluded.pass,
                 manifest_version = excluded.manifest_version, manifest_hash = excluded.manifest_hash,
                 manifest_words = excluded.manifest_words",
        )
        .bind(aid)
        .bind(source_ap)
        .bind(i64::from(own))
        .bind(i64::from(document.listed))
        .bind(i64::from(document.signed))
        .bind(document.content.as_str())
        .bind(document.sha256.as_str())
        .bind(document.updated_at)
        .bind(pass)
        .bind(manifest.map(|manifest| manifest.version))
        .bind(manifest.map(|manifest| manifest.hash.as_str()))
        .bind(manifest.map(|manifest| manifest.words.as_str()))
        .execute(&mut *self.tx)
        .await?;
        if document.listed {
            self.open(document, source_ap, own).await?;
            self.log("upsert", aid, own, document.updated_at).await?;
        }
        Ok(())
    }

    /// Takes a document of this source out of the directory; nothing happens if there is none.
    pub async fn remove(&mut self, aid: &str, source_ap: &str, own: bool) -> sqlx::Result<()> {
        let Some(before) = self.before(aid).await?.filter(|before| before.source_ap == source_ap) else {
            return Ok(());
        };
        sqlx::query("DELETE FROM document WHERE aid = $1").bind(aid).execute(&mut *self.tx).await?;
        if before.listed == 1 {
            self.sequence += 1;
            self.close(aid, &before.content).await?;
            self.log("delete", aid, own, self.now).await?;
        }
        Ok(())
    }

    /// Takes out what a copy of the whole directory of a peer did not have: at most so many; returns how many.
    pub async fn remove_not_seen(&mut self, source_ap: &str, pass: i64, most: i64) -> sqlx::Result<usize> {
        let aids: Vec<String> = sqlx::query_scalar(
            "SELECT aid FROM document WHERE source_ap = $1 AND pass <> $2 ORDER BY aid LIMIT $3",
        )
        .bind(source_ap)
        .bind(pass)
        .bind(most)
        .fetch_all(&mut *self.tx)
        .await?;
        for aid in &aids {
            self.remove(aid, source_ap, false).await?;
        }
        Ok(aids.len())
    }

    /// How many documents of a source there are.
    pub async fn count_of(&mut self, source_ap: &str) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT COUNT(*) FROM document WHERE source_ap = $1")
            .bind(source_ap)
            .fetch_one(&mut *self.tx)
            .await
    }

    /// The changes of the agent service up to `after` were read when this page was asked for. False if another process has
    /// stored it meanwhile: nothing may be written then.
    pub async fn advance_position(&mut self, from: i64, to: i64) -> sqlx::Result<bool> {
        let moved = sqlx::query("UPDATE state SET value = $2 WHERE name = 'position' AND value = $1")
            .bind(from)
            .bind(to)
            .execute(&mut *self.tx)
            .await?;
        Ok(moved.rows_affected() == 1)
    }

    /// Everything of ours is read anew from the agent service, whose store is another one now: numbering goes on far above,
    /// and no cursor of before can be used.
    pub async fn begin_anew(&mut self, source_ap: &str) -> sqlx::Result<()> {
        let aids: Vec<String> =
            sqlx::query_scalar("SELECT aid FROM document WHERE source_ap = $1 ORDER BY aid")
                .bind(source_ap)
                .fetch_all(&mut *self.tx)
                .await?;
        self.sequence += RENUMBER_STEP;
        set(&mut self.tx, "floor", self.sequence).await?;
        sqlx::query("DELETE FROM change_log").execute(&mut *self.tx).await?;
        sqlx::query("DELETE FROM snapshot").execute(&mut *self.tx).await?;
        for aid in aids {
            self.remove(&aid, source_ap, true).await?;
        }
        set(&mut self.tx, "position", 0).await
    }

    pub fn tx(&mut self) -> &mut Transaction<'static, Any> {
        &mut self.tx
    }

    async fn before(&mut self, aid: &str) -> sqlx::Result<Option<Before>> {
        sqlx::query_as(
            "SELECT source_ap, listed, signed, sha256, content, manifest_version, manifest_hash FROM document WHERE aid = $1",
        )
        .bind(aid)
            .fetch_optional(&mut *self.tx)
            .await
    }

    async fn mark(&mut self, aid: &str, pass: i64) -> sqlx::Result<()> {
        sqlx::query("UPDATE document SET pass = $2 WHERE aid = $1 AND pass <> $2")
            .bind(aid)
            .bind(pass)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    async fn open(&mut self, document: &DirectoryDocument, source_ap: &str, own: bool) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO listing (aid, valid_from, valid_to, source_ap, own, signed, sha256, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(document.aid.as_str())
        .bind(self.sequence)
        .bind(STILL_VALID)
        .bind(source_ap)
        .bind(i64::from(own))
        .bind(i64::from(document.signed))
        .bind(document.sha256.as_str())
        .bind(document.updated_at)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    /// Ends a version: it stays if a snapshot shows it, and is gone at once if none does. Otherwise an agent that publishes all day would
    /// leave all of that until the next snapshots are made.
    async fn close(&mut self, aid: &str, content: &str) -> sqlx::Result<()> {
        let gone = sqlx::query(
            "DELETE FROM listing WHERE aid = $1 AND valid_to = $2
             AND NOT EXISTS (SELECT 1 FROM snapshot WHERE cut >= listing.valid_from)",
        )
        .bind(aid)
        .bind(STILL_VALID)
        .execute(&mut *self.tx)
        .await?;
        if gone.rows_affected() > 0 {
            return Ok(());
        }
        sqlx::query("UPDATE listing SET valid_to = $2, content = $3 WHERE aid = $1 AND valid_to = $4")
            .bind(aid)
            .bind(self.sequence)
            .bind(content)
            .bind(STILL_VALID)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    async fn log(&mut self, op: &str, aid: &str, own: bool, updated_at: i64) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO change_log (sequence, op, aid, own, updated_at, logged_at) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(self.sequence)
        .bind(op)
        .bind(aid)
        .bind(i64::from(own))
        .bind(updated_at)
        .bind(self.now)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }
}

async fn set(tx: &mut Transaction<'static, Any>, name: &str, value: i64) -> sqlx::Result<()> {
    sqlx::query("UPDATE state SET value = $2 WHERE name = $1")
        .bind(name)
        .bind(value)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
