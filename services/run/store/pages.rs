//! Pages of commands, runs and questions. A page ends at its limit, or after the row that makes it large: an answer has to fit into one
//! frame between two processes, whatever somebody has stored.

use super::row::{APPROVAL_READ, COMMAND_READ, RUN_READ, StoredApproval, StoredCommand, StoredRun, damaged};
use super::{CommandRead, RunFacts, Store};
use crate::model::run::ApprovalRow;
use kernel::json_rows as json;
use serde_json::value::RawValue;
use sqlx::{Any, AssertSqlSafe};
use std::collections::BTreeSet;

/// How many bytes the rows of a page have, but for the last one of it.
pub(crate) const PAGE_BYTES: i64 = 1 << 20;
/// Questions that are looked at for one answer.
const MOST_QUESTIONS: i64 = 100;

/// Some rows of a list.
#[derive(Debug)]
pub(crate) struct BoundedPage<T> {
    pub items: Vec<T>,
    /// Whether the list goes on behind them.
    pub more: bool,
}

/// Which runs a page is about: those of these tenants, or of all, before the run at which the page before ended.
pub(crate) struct ListedRuns<'a> {
    pub tenants: Option<&'a BTreeSet<String>>,
    /// Only those that have not ended.
    pub open: bool,
    pub before: Option<&'a str>,
    pub limit: i64,
}

impl Store {
    /// Commands of a run that have not ended, in their order.
    pub async fn open_commands(
        &self,
        run: &str,
        after: i64,
        limit: i64,
    ) -> sqlx::Result<BoundedPage<CommandRead>> {
        self.commands_between(run, (after, i64::MAX), "AND ended_at IS NULL ORDER BY seq", limit).await
    }

    /// Commands of a run, the newest first.
    pub async fn commands_before(
        &self,
        run: &str,
        before: i64,
        limit: i64,
    ) -> sqlx::Result<BoundedPage<CommandRead>> {
        self.commands_between(run, (-1, before), "ORDER BY seq DESC", limit).await
    }

    /// Sizes are read without the payloads. What is submitted meanwhile is left for the next page.
    async fn commands_between(
        &self,
        run: &str,
        (after, before): (i64, i64),
        wanted: &str,
        limit: i64,
    ) -> sqlx::Result<BoundedPage<CommandRead>> {
        let from = format!("FROM run_command WHERE run_id = $1 AND seq > $2 AND seq < $3 {wanted} LIMIT $4");
        let bytes = "octet_length(payload) + COALESCE(octet_length(failure_message), 0)";
        let sizes: Vec<(i64, i64)> =
            sqlx::query_as::<Any, _>(AssertSqlSafe(format!("SELECT seq, CAST({bytes} AS BIGINT) {from}")))
                .bind(run)
                .bind(after)
                .bind(before)
                // One more tells whether there is another page.
                .bind(limit.saturating_add(1))
                .fetch_all(self.db.read())
                .await?;
        let end = end_of_page(&sizes, limit);
        let more = end.is_some();
        let (Some((first, _)), Some((last, _))) = (sizes.first(), sizes.last()) else {
            return Ok(BoundedPage { items: Vec::new(), more });
        };
        let last = end.unwrap_or(*last);
        let row = json::row(self.engine(), COMMAND_READ);
        let rows: Vec<(String, String)> =
            sqlx::query_as::<Any, _>(AssertSqlSafe(format!("SELECT {row}, payload {from}")))
                .bind(run)
                .bind(first.min(&last) - 1)
                .bind(first.max(&last) + 1)
                .bind(limit)
                .fetch_all(self.db.read())
                .await?;
        let read = |(row, payload): (String, String)| {
            let payload = RawValue::from_string(payload).map_err(damaged)?;
            Ok(CommandRead { row: json::read::<StoredCommand>(&row)?.read(), payload })
        };
        let items: sqlx::Result<_> = rows.into_iter().map(read).collect();
        Ok(BoundedPage { items: items?, more })
    }

    /// Runs, the newest first. Each tenant is read in the order of an index, so that no list is sorted to show a page of it.
    pub async fn runs_of(&self, wanted: &ListedRuns<'_>) -> sqlx::Result<BoundedPage<RunFacts>> {
        let open = if wanted.open { "AND ended_at IS NULL" } else { "" };
        let before = if wanted.before.is_some() { "AND id < $3" } else { "" };
        let text = format!(
            "SELECT id, CAST(octet_length(fixed) AS BIGINT) FROM run WHERE tenant = $1 {open} {before}
             ORDER BY id DESC LIMIT $2"
        );
        let all = match wanted.tenants {
            Some(_) => BTreeSet::new(),
            None => self.tenants_with_runs().await?,
        };
        let mut sizes: Vec<(String, i64)> = Vec::new();
        for tenant in wanted.tenants.unwrap_or(&all) {
            let query = sqlx::query_as::<Any, (String, i64)>(AssertSqlSafe(text.clone()));
            let query = query.bind(tenant.as_str()).bind(wanted.limit.saturating_add(1));
            let query = wanted.before.into_iter().fold(query, |query, before| query.bind(before));
            sizes.extend(query.fetch_all(self.db.read()).await?);
        }
        sizes.sort_by(|a, b| b.0.cmp(&a.0));
        let end = end_of_page(&sizes, wanted.limit);
        let more = end.is_some();
        let ids: Vec<String> = sizes.into_iter().map(|(id, _)| id).collect();
        let shown = end.and_then(|end| ids.iter().position(|id| *id == end)).map_or(ids.len(), |at| at + 1);
        Ok(BoundedPage { items: self.runs_by_id(&ids[..shown]).await?, more })
    }

    /// The newest first.
    async fn runs_by_id(&self, ids: &[String]) -> sqlx::Result<Vec<RunFacts>> {
        let row = json::row(self.engine(), RUN_READ);
        let found = self.is_one_of("id", 1);
        let text = format!("SELECT {row}, fixed FROM run WHERE {found} ORDER BY id DESC");
        let query = sqlx::query_as::<Any, (String, String)>(AssertSqlSafe(text)).bind(json::text(&ids)?);
        let rows = query.fetch_all(self.db.read()).await?;
        let read = |(row, fixed): (String, String)| {
            Ok(RunFacts { row: json::read::<StoredRun>(&row)?.read(), fixed })
        };
        rows.into_iter().map(read).collect()
    }

    /// The tenants that have runs, also those that are not listed in the settings any more: each is looked up in an index.
    async fn tenants_with_runs(&self) -> sqlx::Result<BTreeSet<String>> {
        let names: Vec<String> = sqlx::query_scalar::<Any, String>(
            "WITH RECURSIVE tenants(name) AS (
                 SELECT MIN(tenant) FROM run
                 UNION ALL
                 SELECT (SELECT MIN(tenant) FROM run WHERE tenant > tenants.name) FROM tenants
                 WHERE tenants.name IS NOT NULL)
             SELECT name FROM tenants WHERE name IS NOT NULL",
        )
        .fetch_all(self.db.read())
        .await?;
        Ok(names.into_iter().collect())
    }

    /// Questions of a run that nobody has answered yet, the oldest first. Where they are too much for one answer, the others are shown
    /// when these are answered.
    pub async fn open_approvals(&self, run: &str) -> sqlx::Result<Vec<ApprovalRow>> {
        self.approvals_of(run, "settled_at IS NULL AND decision IS NULL").await
    }

    /// Answers that are not in the log yet, in the same way.
    pub async fn answered_approvals(&self, run: &str) -> sqlx::Result<Vec<ApprovalRow>> {
        self.approvals_of(run, "settled_at IS NULL AND decision IS NOT NULL").await
    }

    async fn approvals_of(&self, run: &str, wanted: &str) -> sqlx::Result<Vec<ApprovalRow>> {
        let (bytes, order) = (
            "octet_length(question) + COALESCE(octet_length(answer), 0)",
            "ORDER BY created_at, approval_id",
        );
        let text = format!(
            "SELECT approval_id, CAST({bytes} AS BIGINT) FROM run_approval
             WHERE run_id = $1 AND {wanted} {order} LIMIT {MOST_QUESTIONS}"
        );
        let query = sqlx::query_as::<Any, (String, i64)>(AssertSqlSafe(text)).bind(run);
        let sizes = query.fetch_all(self.db.read()).await?;
        if sizes.is_empty() {
            return Ok(Vec::new());
        }
        let end = end_of_page(&sizes, MOST_QUESTIONS);
        let shown = end.and_then(|end| sizes.iter().position(|(id, _)| *id == end));
        let shown = &sizes[..shown.map_or(sizes.len(), |at| at + 1)];
        let ids: Vec<&str> = shown.iter().map(|(id, _)| id.as_str()).collect();

        let (row, found) = (json::row(self.engine(), APPROVAL_READ), self.is_one_of("approval_id", 2));
        let text =
            format!("SELECT {row} FROM run_approval WHERE run_id = $1 AND {found} AND {wanted} {order}");
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text)).bind(run).bind(json::text(&ids)?);
        let rows = query.fetch_all(self.db.read()).await?;
        rows.iter().map(|row| json::read::<StoredApproval>(row)?.read()).collect()
    }
}

/// The last row of a page, of which its name and size are given, if there are more rows than the page has.
pub(super) fn end_of_page<K: Clone>(sizes: &[(K, i64)], limit: i64) -> Option<K> {
    let (mut count, mut bytes) = (0, 0);
    let mut last: Option<&K> = None;
    for (name, size) in sizes {
        if count == limit || bytes >= PAGE_BYTES {
            return last.cloned();
        }
        (count, bytes, last) = (count + 1, bytes + *size, Some(name));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_or_after_the_row_that_fills_it() {
        let small = [(1, 10), (4, 10), (9, 10)];
        for (limit, end) in [(1, Some(1)), (2, Some(4)), (3, None), (4, None)] {
            assert_eq!(end_of_page(&small, limit), end, "{limit}");
        }
        let large = [(1, 10), (2, PAGE_BYTES), (3, 10)];
        assert_eq!(end_of_page(&large, 10), Some(2));
        assert_eq!(end_of_page(&large[1..], 10), Some(2), "a row that fills a page alone is on it");
        assert_eq!((end_of_page(&large[..2], 10), end_of_page::<i64>(&[], 10)), (None, None));
    }
}
