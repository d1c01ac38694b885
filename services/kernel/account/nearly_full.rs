//! Whose account is nearly full: a service may have something old that goes before something new is refused.

use super::kept::ROW_BYTES;
use super::payer::{DOMAIN, TENANT};
use super::{Account, Kept};
use crate::Aid;
use sqlx::{Any, AnyConnection, AssertSqlSafe};

/// In eighths of what an agent may keep: above the first its account is nearly full, and at the second it has space again.
const NEARLY_FULL: i64 = 7;
const SPACE: i64 = 6;
/// Agents that are read at once.
const PAGE: i64 = 100;
/// The smallest account in the index of the large ones.
const LARGE: i64 = 1_048_576;

impl Account {
    /// Some of the agents that keep over seven eighths of what they may, in the order of their names: those after this one.
    pub async fn nearly_full(&self, after: &str) -> sqlx::Result<Vec<Aid>> {
        let share = self.0.limits.share;
        // A row counts its own bytes, too: with so many rows an account has at least so many bytes.
        let least = eighths(share.bytes, NEARLY_FULL).min(eighths(share.rows, NEARLY_FULL) * ROW_BYTES);
        let large = if least > LARGE { format!("bytes > {LARGE} AND") } else { String::new() };
        let text = format!(
            "SELECT held.payer FROM (
                 SELECT payer, bytes, kept_rows FROM account WHERE {large} bytes > $4 AND counted_on IS NULL
                 UNION SELECT payer, account.bytes, account.kept_rows FROM account_limit JOIN account ON payer = aid
             ) AS held LEFT JOIN account_limit AS given ON given.aid = held.payer
             WHERE held.payer > $1 AND held.payer NOT LIKE '{DOMAIN}%'
                 AND held.payer NOT LIKE '{TENANT}%' AND (
                 held.bytes > COALESCE(given.bytes, $2) / 8 * {NEARLY_FULL}
                 OR held.kept_rows > COALESCE(given.kept_rows, $3) / 8 * {NEARLY_FULL})
             ORDER BY held.payer LIMIT {PAGE}"
        );
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        let query = query.bind(after).bind(share.bytes).bind(share.rows).bind(least);
        let names = query.fetch_all(self.0.db.read()).await?;
        Ok(names.iter().filter_map(|name| Aid::parse(name).ok()).collect())
    }

    /// How much has to go until an agent keeps no more than three quarters of what it may; nothing if it has that space.
    pub async fn excess(&self, connection: &mut AnyConnection, aid: &Aid) -> sqlx::Result<Kept> {
        let kept: Option<(i64, i64)> =
            sqlx::query_as("SELECT bytes, kept_rows FROM account WHERE payer = $1")
                .bind(aid.as_str())
                .fetch_optional(connection)
                .await?;
        let (bytes, rows) = kept.unwrap_or_default();
        let most = self.0.changed.of(aid.as_str()).unwrap_or(self.0.limits.share);
        let over = |held: i64, most: i64| (held - eighths(most, SPACE)).max(0);
        Ok(Kept { bytes: over(bytes, most.bytes), rows: over(rows, most.rows) })
    }
}

fn eighths(most: i64, number: i64) -> i64 {
    most / 8 * number
}
