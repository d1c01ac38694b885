//! What is stored for an agent whose AID ended: the messages that wait for it, its inboxes, and what its devices left.

mod messages;

use super::Store;
use super::inboxes::Inboxes;
use kernel::{Aid, Engine};
use sqlx::{Any, AssertSqlSafe, Transaction};

/// Rows that one transaction removes.
const STEP: i64 = 500;

impl Inboxes {
    /// The ids of the inboxes of an agent, read from the store.
    pub async fn ids_of(&self, aid: &Aid) -> sqlx::Result<Vec<i64>> {
        sqlx::query_scalar("SELECT id FROM inbox WHERE aid = $1 ORDER BY id")
            .bind(aid.as_str())
            .fetch_all(self.db.read())
            .await
    }

    /// Removes all inboxes of an agent, one in each transaction. From then on a message to it finds no device.
    pub async fn remove_all(&self, aid: &Aid) -> sqlx::Result<()> {
        loop {
            let mut tx = self.lock_agent(aid).await?;
            let next: Option<(i64, String)> =
                sqlx::query_as("SELECT id, device FROM inbox WHERE aid = $1 ORDER BY id LIMIT 1")
                    .bind(aid.as_str())
                    .fetch_optional(&mut *tx)
                    .await?;
            let Some(inbox) = next else { return Ok(()) };
            self.remove(&mut tx, aid, &inbox).await?;
            if self.db.engine() == Engine::Sqlite {
                keep_id(&mut tx, inbox.0).await?;
            }
            self.count_change(&mut tx, aid).await?;
            self.db.commit(tx).await?;
            self.forget(aid);
            self.tell_removed(aid, &[inbox.0]);
        }
    }
}

/// SQLite gives a new inbox the highest id and one. If the one that was removed had the highest, a row of nobody keeps its id: a message
/// that is on its way to it must not be found in the inbox of somebody else. Rows that kept an id before are not needed.
pub(super) async fn keep_id(tx: &mut Transaction<'static, Any>, removed: i64) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO inbox (id, aid, device)
         SELECT $1, '', CAST($1 AS TEXT) WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE id > $1)",
    )
    .bind(removed)
    .execute(&mut **tx)
    .await?;
    sqlx::query("DELETE FROM inbox WHERE aid = '' AND id < (SELECT MAX(id) FROM inbox)")
        .execute(&mut **tx)
        .await?;
    Ok(())
}

impl Store {
    /// Removes what an agent left beside its inboxes: published keys, how far it has read, and what it has decrypted.
    pub async fn remove_rows_of(&self, aid: &Aid) -> sqlx::Result<()> {
        for (table, key, column) in [
            ("prekey", "aid, device", "aid"),
            ("read_state", "aid, device, topic", "aid"),
            ("replay_guard", "key", "owner"),
            ("removed_device", "aid", "aid"),
        ] {
            let text = format!(
                "DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {column} = $1 LIMIT $2)"
            );
            loop {
                let query = sqlx::query(AssertSqlSafe(text.clone())).bind(aid.as_str()).bind(STEP);
                let gone = self.db.counted(query.execute(self.db.write_alone())).await?;
                if gone.rows_affected() < STEP.unsigned_abs() {
                    break;
                }
            }
        }
        Ok(())
    }
}
