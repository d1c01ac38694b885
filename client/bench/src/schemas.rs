//! The bench's own schemas in somebody's PostgreSQL: made for each server, and dropped at the end.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor as _};

/// What the names of all schemas of this run begin with.
fn prefix() -> String {
    format!("aund_bench_{}_", std::process::id())
}

/// A prefix that no other server of this run has.
pub(super) fn fresh_prefix() -> String {
    static SERVERS: AtomicU32 = AtomicU32::new(0);
    format!("{}{}_", prefix(), SERVERS.fetch_add(1, Ordering::Relaxed))
}

/// The store of a server whose schemas have this prefix.
pub(super) fn store_url(url: &str, prefix: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}schema_prefix={prefix}")
}

/// Drops the schemas of this run when its measurement is over, also after a failure: the database is somebody's, and the
/// bench leaves it as it was.
pub(super) async fn dropped_after<T>(
    url: &str,
    measured: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let measured = measured.await;
    drop_all(url).await.context("the bench's schemas could not be dropped")?;
    measured
}

async fn drop_all(url: &str) -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(1).connect(url).await?;
    let find = "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname::text, $1)";
    let schemas: Vec<String> = sqlx::query_scalar(find).bind(prefix()).fetch_all(&pool).await?;
    for schema in schemas {
        pool.execute(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).await?;
    }
    Ok(())
}
