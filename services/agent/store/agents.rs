//! The rows of registered agents.
//!
//! Whoever changes an agent or its relations locks its row first, so version numbers have no gaps, and a grant is compared with the
//! manifest that is stored at that moment. On SQLite there is one writer.

use super::Store;
use kernel::sha256_hex;
use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, Transaction};

pub(crate) type WriteTx = Transaction<'static, Any>;

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AgentRow {
    pub id: String,
    pub aid: String,
    pub owner: String,
    pub name: String,
    pub description: Option<String>,
    pub connection_mode: String,
    pub health_check_url: Option<String>,
    pub webhook_url: Option<String>,
    pub webhook_secret: Option<String>,
    pub webhook_unreachable: i64,
    /// The hash of the URL to which the key of the AID has agreed.
    pub webhook_agreed: Option<String>,
    /// The fingerprint of that key, as long as it is the AID's.
    pub webhook_agreed_key: Option<String>,
    pub token_hash: String,
    /// The canonical text.
    pub manifest: Option<String>,
    pub manifest_version: i64,
    pub manifest_hash: Option<String>,
    /// The words of the manifest that the directory finds the agent by.
    pub manifest_facts: Option<String>,
    /// What grants are compared with.
    pub consent_facts: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
}

impl AgentRow {
    /// Whether the AID has a device for its webhook: the mode is that, and its key has agreed to some URL since.
    pub fn has_webhook_device(&self) -> bool {
        self.connection_mode == "webhook" && self.webhook_agreed.is_some()
    }

    /// Where the messages of the AID are sent: to the URL to which its key has agreed, and to no other.
    pub fn messages_url(&self) -> Option<&str> {
        let is_agreed = self.has_webhook_device() && self.webhook_agreed_key.is_some();
        let url = self.webhook_url.as_deref().filter(|_| is_agreed)?;
        (self.webhook_agreed == Some(sha256_hex(url))).then_some(url)
    }
}

impl Store {
    pub async fn begin(&self) -> sqlx::Result<WriteTx> {
        self.db.write().await
    }

    pub async fn commit(&self, tx: WriteTx) -> sqlx::Result<()> {
        self.tally.time(tx.commit()).await
    }

    /// By its id or its AID: an AID has a dot, and an id has none.
    pub async fn agent(&self, id: &str) -> sqlx::Result<Option<AgentRow>> {
        sqlx::query_as::<Any, AgentRow>(
            "SELECT id, aid, owner, name, description, connection_mode, health_check_url, webhook_url, webhook_secret,
                 webhook_unreachable, webhook_agreed, webhook_agreed_key, token_hash, manifest, manifest_version, manifest_hash,
                 manifest_facts, consent_facts, created_at, updated_at
             FROM agent WHERE id = $1 OR aid = $1",
        )
        .bind(id)
        .fetch_optional(self.db.read())
        .await
    }

    /// Stores whether the webhook of an agent can be reached.
    pub async fn set_webhook_unreachable(&self, id: &str, unreachable: bool) -> sqlx::Result<()> {
        let write = sqlx::query(
            "UPDATE agent SET webhook_unreachable = $2 WHERE id = $1 AND webhook_unreachable <> $2",
        );
        let write = write.bind(id).bind(i64::from(unreachable)).execute(self.db.write_alone());
        self.db.counted(write).await?;
        Ok(())
    }

    /// Stores that an agreement ended because its key is not the AID's any more. The device stays: messages wait in its inbox until the
    /// key of today agrees.
    pub async fn end_agreement(&self, id: &str, key: &str) -> sqlx::Result<()> {
        // Another key may have agreed meanwhile, to the same URL.
        let write = sqlx::query(
            "UPDATE agent SET webhook_agreed_key = NULL WHERE id = $1 AND webhook_agreed_key = $2",
        );
        let write = write.bind(id).bind(key);
        self.db.counted(write.execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// Removes proofs that are too old to be used again.
    pub async fn remove_proofs(&self, before: i64) -> sqlx::Result<()> {
        let query = sqlx::query("DELETE FROM used_proof WHERE expires_at < $1");
        self.db.counted(query.bind(before).execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// The AID of the agent with this token.
    pub async fn agent_of_token(&self, token_hash: &str) -> sqlx::Result<Option<(String, String)>> {
        sqlx::query_as("SELECT id, aid FROM agent WHERE token_hash = $1")
            .bind(token_hash)
            .fetch_optional(self.db.read())
            .await
    }

    /// The agents of an owner after an id, without their manifests, which fill no page then.
    pub async fn agents_of(&self, owner: &str, after: &str, limit: i64) -> sqlx::Result<Vec<AgentRow>> {
        sqlx::query_as::<Any, AgentRow>(
            "SELECT id, aid, owner, name, description, connection_mode, health_check_url, webhook_url, NULL AS webhook_secret,
                 webhook_unreachable, webhook_agreed, webhook_agreed_key, token_hash, NULL AS manifest, manifest_version, manifest_hash,
                 NULL AS manifest_facts, NULL AS consent_facts, created_at, updated_at
             FROM agent WHERE owner = $1 AND id > $2 ORDER BY id LIMIT $3",
        )
        .bind(owner)
        .bind(after)
        .bind(limit)
        .fetch_all(self.db.read())
        .await
    }
}

/// One writer at a time registers: what it counts and looks for stays as it is until its commit.
pub(crate) async fn lock_registration(tx: &mut WriteTx) -> sqlx::Result<()> {
    sqlx::query("UPDATE agent_state SET value = value WHERE name = 'position'").execute(&mut **tx).await?;
    Ok(())
}

/// Changed to what it is: that locks the row on PostgreSQL, until the commit.
pub(crate) async fn lock(tx: &mut WriteTx, id: &str) -> sqlx::Result<Option<AgentRow>> {
    sqlx::query_as::<Any, AgentRow>(
        "UPDATE agent SET updated_at = updated_at WHERE id = $1 OR aid = $1
         RETURNING id, aid, owner, name, description, connection_mode, health_check_url, webhook_url, webhook_secret,
             webhook_unreachable, webhook_agreed, webhook_agreed_key, token_hash, manifest, manifest_version, manifest_hash,
             manifest_facts, consent_facts, created_at, updated_at",
    )
    .bind(id)
    .fetch_optional(&mut **tx)
    .await
}

pub(crate) async fn count_of(tx: &mut WriteTx, owner: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT COUNT(*) FROM agent WHERE owner = $1").bind(owner).fetch_one(&mut **tx).await
}

/// The id of the agent that is registered for an AID.
pub(crate) async fn id_of(tx: &mut WriteTx, aid: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("SELECT id FROM agent WHERE aid = $1").bind(aid).fetch_optional(&mut **tx).await
}

/// False if this proof was used before.
pub(crate) async fn use_proof(
    tx: &mut WriteTx,
    aid: &str,
    nonce: &str,
    expires_at: i64,
) -> sqlx::Result<bool> {
    let used = sqlx::query(
        "INSERT INTO used_proof (aid, nonce, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    )
    .bind(aid)
    .bind(nonce)
    .bind(expires_at)
    .execute(&mut **tx)
    .await?;
    Ok(used.rows_affected() == 1)
}

pub(crate) async fn insert(tx: &mut WriteTx, row: &AgentRow) -> sqlx::Result<()> {
    let insert = "INSERT INTO agent (id, name, description, connection_mode, health_check_url, webhook_url, webhook_secret,
             webhook_unreachable, token_hash, manifest, manifest_version, manifest_hash, manifest_facts, consent_facts, webhook_agreed,
             webhook_agreed_key, updated_at, aid, owner, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
    with_changeable(insert, row)
        .bind(row.aid.as_str())
        .bind(row.owner.as_str())
        .bind(row.created_at)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Everything that can change of an agent.
pub(crate) async fn write(tx: &mut WriteTx, row: &AgentRow) -> sqlx::Result<()> {
    let update = "UPDATE agent SET name = $2, description = $3, connection_mode = $4, health_check_url = $5, webhook_url = $6,
             webhook_secret = $7, webhook_unreachable = $8, token_hash = $9, manifest = $10, manifest_version = $11,
             manifest_hash = $12, manifest_facts = $13, consent_facts = $14, webhook_agreed = $15, webhook_agreed_key = $16, updated_at = $17
         WHERE id = $1";
    with_changeable(update, row).execute(&mut **tx).await?;
    Ok(())
}

/// A statement whose first 17 parameters are the id and everything that can change.
fn with_changeable<'q>(statement: &'static str, row: &'q AgentRow) -> Query<'q, Any, AnyArguments> {
    sqlx::query(statement)
        .bind(row.id.as_str())
        .bind(row.name.as_str())
        .bind(row.description.as_deref())
        .bind(row.connection_mode.as_str())
        .bind(row.health_check_url.as_deref())
        .bind(row.webhook_url.as_deref())
        .bind(row.webhook_secret.as_deref())
        .bind(row.webhook_unreachable)
        .bind(row.token_hash.as_str())
        .bind(row.manifest.as_deref())
        .bind(row.manifest_version)
        .bind(row.manifest_hash.as_deref())
        .bind(row.manifest_facts.as_deref())
        .bind(row.consent_facts.as_deref())
        .bind(row.webhook_agreed.as_deref())
        .bind(row.webhook_agreed_key.as_deref())
        .bind(row.updated_at)
}

/// Removes an agent with all that is its own. Its relations are revoked, so that their users see what became of them.
pub(crate) async fn remove(tx: &mut WriteTx, id: &str, now: i64) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM agent WHERE id = $1").bind(id).execute(&mut **tx).await?;
    sqlx::query(
        "UPDATE relation SET status = 'revoked', reauth_required = 0, updated_at = $2
         WHERE agent_id = $1 AND status <> 'revoked'",
    )
    .bind(id)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
