//! Every SQL statement of `agent.*`.

use crate::kernel::{Db, Tally};
use std::sync::Arc;

/// What must hold of the stored document for a write to happen.
pub(super) enum Condition {
    Always,
    Absent,
    /// It is the one with this ETag.
    Is(String),
}

pub(super) struct Store {
    db: Db,
    tally: Arc<Tally>,
}

impl Store {
    pub fn new(db: Db, tally: Arc<Tally>) -> Store {
        Store { db, tally }
    }

    pub async fn get(&self, aid: &str) -> sqlx::Result<Option<(String, String, i64)>> {
        sqlx::query_as("SELECT content, etag, updated_at FROM agent_md WHERE aid = $1")
            .bind(aid)
            .fetch_optional(self.db.read())
            .await
    }

    /// Compare and swap: condition and write are one statement. Returns false if the condition did not hold.
    pub async fn put(
        &self,
        aid: &str,
        content: &str,
        etag: &str,
        now: i64,
        condition: &Condition,
    ) -> sqlx::Result<bool> {
        let query = match condition {
            Condition::Always => sqlx::query(
                "INSERT INTO agent_md (aid, content, etag, updated_at) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (aid) DO UPDATE
                 SET content = excluded.content, etag = excluded.etag, updated_at = excluded.updated_at",
            ),
            Condition::Absent => sqlx::query(
                "INSERT INTO agent_md (aid, content, etag, updated_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            ),
            Condition::Is(_) => sqlx::query(
                "UPDATE agent_md SET content = $2, etag = $3, updated_at = $4 WHERE aid = $1 AND etag = $5",
            ),
        };
        let mut query = query.bind(aid).bind(content).bind(etag).bind(now);
        if let Condition::Is(expected) = condition {
            query = query.bind(expected.as_str());
        }
        let commit = async {
            let mut tx = self.db.write().await?;
            let written = query.execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            Ok(written == 1)
        };
        self.tally.time(commit).await
    }
}
