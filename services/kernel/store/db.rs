//! `Db`: one service's database, the same SQL on two engines.
//!
//! On SQLite a service has a file, one connection that writes and a few that read beside it (WAL, `synchronous=FULL`: a
//! commit that was answered survives a loss of power). On PostgreSQL it has a schema.

use super::stats::Tally;
use crate::RpcError;
use anyhow::{Context, bail};
use sqlx::any::AnyPoolOptions;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Any, AnyConnection, AnyPool, Transaction};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a query waits for a connection before the store counts as unavailable.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a service that starts waits so long for PostgreSQL, which may start, too.
const TRIES_AT_START: u32 = 6;
/// A store that takes longer to answer when it is only asked whether it does counts as unavailable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// What a commit on SQLite waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The disk: what was answered survives a loss of power.
    Full,
    /// The disk, many times a second: the service calls [`Db::checkpoint`] now and then, so that commits need not.
    Busy,
    /// Nothing: the file can be made again from one that is durable, and is never half written.
    Derived,
}

/// Where the services keep their data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreUrl {
    /// A folder with a file per service; empty means the data folder.
    Sqlite(PathBuf),
    /// A database with a schema per service, whose names begin with the prefix.
    Postgres { url: String, schema_prefix: String },
}

impl FromStr for StoreUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<StoreUrl> {
        if let Some(folder) = text.strip_prefix("sqlite:") {
            return Ok(StoreUrl::Sqlite(folder.trim_start_matches("//").into()));
        }
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            bail!("a store must be sqlite:FOLDER or postgres://USER@HOST/DATABASE, not {text:?}");
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut schema_prefix, mut kept) = (String::new(), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.strip_prefix("schema_prefix=") {
                Some(prefix) => schema_prefix = prefix.to_owned(),
                None => kept.push(pair),
            }
        }
        if !schema_prefix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            bail!("schema_prefix must consist of a-z, 0-9 and '_', and is {schema_prefix:?}");
        }
        let url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        Ok(StoreUrl::Postgres { url, schema_prefix })
    }
}

impl StoreUrl {
    pub fn engine(&self) -> Engine {
        match self {
            StoreUrl::Sqlite(_) => Engine::Sqlite,
            StoreUrl::Postgres { .. } => Engine::Postgres,
        }
    }

    /// The folder of the files on SQLite, in a process with this data folder.
    pub fn folder<'a>(&'a self, data: &'a Path) -> Option<&'a Path> {
        match self {
            StoreUrl::Sqlite(folder) => Some(folder_or(folder, data)),
            StoreUrl::Postgres { .. } => None,
        }
    }

    /// The URL without a password, for people.
    pub fn shown(&self) -> String {
        match self {
            StoreUrl::Sqlite(folder) => format!("sqlite:{}", folder.display()),
            StoreUrl::Postgres { url, schema_prefix } => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                format!("{scheme}://{}", host)
                    + if schema_prefix.is_empty() { "" } else { " (prefixed schemas)" }
            }
        }
    }
}

#[derive(Clone)]
pub struct Db {
    engine: Engine,
    read: AnyPool,
    write: AnyPool,
    tally: Arc<Tally>,
}

impl Db {
    /// Opens the service's database, making it if need be, and brings its tables up to date.
    pub async fn open(
        store: &StoreUrl,
        data: &Path,
        service: &str,
        migrations: &Migrator,
        durability: Durability,
    ) -> anyhow::Result<Db> {
        sqlx::any::install_default_drivers();
        let db = match store {
            StoreUrl::Sqlite(folder) => {
                Db::sqlite(&folder_or(folder, data).join(format!("{service}.db")), durability).await?
            }
            StoreUrl::Postgres { url, schema_prefix } => {
                Db::postgres(url, &format!("{schema_prefix}{service}")).await?
            }
        };
        let migrated = match db.engine {
            Engine::Sqlite => migrations.run(&db.write).await,
            Engine::Postgres => db.migrate_schema(migrations).await,
        };
        migrated.with_context(|| format!("the tables of {service} cannot be migrated"))?;
        Ok(db)
    }

    /// A migrator's own lock is one for the whole database. This one is for a schema: processes of one service wait for each other,
    /// and no service waits for another.
    async fn migrate_schema(&self, migrations: &Migrator) -> Result<(), MigrateError> {
        let mut migrator = Migrator::with_migrations(migrations.iter().cloned().collect());
        migrator.set_locking(false);
        let mut connection = self.write.acquire().await?;
        run(&mut connection, &schema_lock("pg_advisory_lock")).await?;
        let migrated = migrator.run(&mut *connection).await;
        let unlocked = run(&mut connection, &schema_lock("pg_advisory_unlock")).await;
        migrated?;
        Ok(unlocked?)
    }

    async fn sqlite(file: &Path, durability: Durability) -> anyhow::Result<Db> {
        // Made by us and not by SQLite, for its mode: what SQLite puts beside it gets the same.
        private(file).with_context(|| format!("the database file {} cannot be created", file.display()))?;
        let url = format!("sqlite:{}?mode=rwc", file.display());
        let pragmas = match durability {
            Durability::Full => {
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000"
            }
            Durability::Busy => {
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
                 PRAGMA wal_autocheckpoint = 16384"
            }
            Durability::Derived => {
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000;
                 PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 8192"
            }
        };
        let pool = |connections| {
            AnyPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(ACQUIRE_TIMEOUT)
                // A file does not disconnect: a test before each query would cost more than most queries.
                .test_before_acquire(false)
                .after_connect(move |connection, _| Box::pin(run(connection, pragmas)))
        };
        let context = || format!("the database file {} cannot be opened", file.display());
        let write = pool(1).connect(&url).await.with_context(context)?;
        let read = pool(4).connect(&url).await.with_context(context)?;
        Ok(Db { engine: Engine::Sqlite, read, write, tally: Arc::default() })
    }

    async fn postgres(url: &str, schema: &str) -> anyhow::Result<Db> {
        // The schema's name is ours and checked to be plain ASCII, so it may be part of the SQL text.
        // That something exists already is no news.
        let settings = format!("SET search_path TO {schema}; SET client_min_messages TO warning");
        let create = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
        let pool = AnyPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(move |connection, _| {
                let settings = settings.clone();
                Box::pin(async move { run(connection, &settings).await })
            })
            .connect_lazy(url)
            .context("the URL of the PostgreSQL server cannot be read")?;
        first_connection(&pool).await.context("the PostgreSQL server does not answer")?;
        // Two processes may start at once; the loser of the race finds the schema there.
        if let Err(error) = sqlx::query(sqlx::AssertSqlSafe(create)).execute(&pool).await {
            tracing::debug!("creating schema {schema}: {error}");
        }
        Ok(Db { engine: Engine::Postgres, read: pool.clone(), write: pool, tally: Arc::default() })
    }

    /// Whether a PostgreSQL server answers, and which one: for `aund doctor`.
    pub async fn probe(store: &StoreUrl) -> anyhow::Result<String> {
        ask_once(store, "SELECT version()".to_owned()).await
    }

    /// What all services of the server hold in a PostgreSQL database, whichever process runs them: tables with their indexes.
    pub async fn schema_bytes(store: &StoreUrl) -> anyhow::Result<u64> {
        let StoreUrl::Postgres { schema_prefix, .. } = store else { bail!("SQLite has no schemas") };
        let schemas: Vec<String> =
            proto_schemas::services().map(|service| format!("'{schema_prefix}{service}'")).collect();
        let sum = format!(
            "SELECT CAST(COALESCE(SUM(pg_total_relation_size(pg_class.oid)), 0) AS BIGINT)
             FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
             WHERE relkind IN ('r', 'm') AND nspname IN ({})",
            schemas.join(", ")
        );
        Ok(ask_once::<i64>(store, sum).await?.unsigned_abs())
    }

    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Has the commits that are not a batch's counted here.
    #[must_use]
    pub fn counted_by(mut self, tally: Arc<Tally>) -> Db {
        self.tally = tally;
        self
    }

    /// Whether a write could begin right now. A disk that is full is found by the write itself.
    ///
    /// On SQLite it asks on the one connection that writes, behind the writes that wait for it: whoever had another connection would
    /// wait for the lock against a busy writer, and lose. It waits for another program's lock a moment only, because a write that
    /// comes meanwhile waits for it.
    pub async fn answers(&self) -> sqlx::Result<()> {
        let late = |_| sqlx::Error::PoolTimedOut;
        let mut connection = timeout(ANSWER_TIMEOUT, self.write.acquire()).await.map_err(late)??;
        if self.engine == Engine::Postgres {
            return timeout(ANSWER_TIMEOUT, run(&mut connection, "SELECT 1")).await.map_err(late)?;
        }
        run(&mut connection, "PRAGMA busy_timeout = 500").await?;
        let begun = run(&mut connection, "BEGIN IMMEDIATE").await;
        let ended = if begun.is_ok() { run(&mut connection, "ROLLBACK").await } else { Ok(()) };
        let restored = run(&mut connection, "PRAGMA busy_timeout = 5000").await;
        begun.and(ended).and(restored)
    }

    /// For queries that change nothing.
    pub fn read(&self) -> &AnyPool {
        &self.read
    }

    /// Begins a transaction that writes. On SQLite it takes the write lock at once: a reader must not turn writer
    /// halfway.
    pub async fn write(&self) -> sqlx::Result<Transaction<'static, Any>> {
        match self.engine {
            Engine::Sqlite => self.write.begin_with("BEGIN IMMEDIATE").await,
            Engine::Postgres => self.write.begin().await,
        }
    }

    /// The same for a transaction that is a commit of its own, ended with [`Db::commit`]: that it could not begin is counted. A
    /// batch counts what it commits by itself.
    pub async fn begin(&self) -> sqlx::Result<Transaction<'static, Any>> {
        let begun = self.write().await;
        if begun.is_err() {
            self.tally.commit(Duration::ZERO, 1, 0);
        }
        begun
    }

    /// Commits what was begun with [`Db::begin`], and counts it.
    pub async fn commit(&self, tx: Transaction<'static, Any>) -> sqlx::Result<()> {
        self.counted(tx.commit()).await
    }

    /// Counts one statement that is a commit of its own; see [`Db::write_alone`].
    pub async fn counted<T>(&self, commit: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        self.tally.time(commit).await
    }

    /// Moves what was committed from SQLite's journal into its file: twice beside the writer, the second time what came
    /// meanwhile, and the last of it on the writer's connection. Only when nothing is left does the journal begin anew; one
    /// that grows makes every commit wait for more of the disk.
    pub async fn checkpoint(&self) -> sqlx::Result<()> {
        if self.engine == Engine::Sqlite {
            for pool in [&self.read, &self.read, &self.write] {
                sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(pool).await?;
            }
        }
        Ok(())
    }

    /// For one statement that is a transaction by itself, on SQLite: a third of the way to the disk and back.
    pub fn write_alone(&self) -> &AnyPool {
        &self.write
    }

    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}

fn folder_or<'a>(folder: &'a Path, data: &'a Path) -> &'a Path {
    if folder.as_os_str().is_empty() { data } else { folder }
}

/// Asks a PostgreSQL server one question on a connection of its own, which ends with it.
async fn ask_once<T>(store: &StoreUrl, question: String) -> anyhow::Result<T>
where
    T: for<'r> sqlx::Decode<'r, Any> + sqlx::Type<Any> + Send + Unpin,
{
    let StoreUrl::Postgres { url, .. } = store else { bail!("only PostgreSQL can be queried") };
    sqlx::any::install_default_drivers();
    let pool = AnyPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_TIMEOUT).connect(url).await?;
    let answer = sqlx::query_scalar(sqlx::AssertSqlSafe(question)).fetch_one(&pool).await;
    pool.close().await;
    Ok(answer?)
}

fn private(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        crate::files::make_folder(folder)?;
    }
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file).map(drop)
}

/// Waits for a PostgreSQL server that is starting, or is too busy for one more connection; what it refuses for good is an error at once.
async fn first_connection(pool: &AnyPool) -> sqlx::Result<()> {
    for _ in 1..TRIES_AT_START {
        match pool.acquire().await {
            Err(sqlx::Error::PoolTimedOut) => tracing::warn!("the PostgreSQL server does not answer yet"),
            connected => return connected.map(drop),
        }
    }
    pool.acquire().await.map(drop)
}

/// Calls a function of advisory locks for the schema of the connection.
fn schema_lock(function: &str) -> String {
    let key = "hashtextextended('migrations of ' || CAST(current_schema() AS TEXT), 0)";
    format!("SELECT CAST({function}({key}) AS TEXT)")
}

async fn run(connection: &mut AnyConnection, sql: &str) -> sqlx::Result<()> {
    use sqlx::Executor as _;
    connection.execute(sqlx::AssertSqlSafe(sql.to_owned())).await?;
    Ok(())
}

/// Whether a write failed because its disk is full: SQLITE_FULL, `disk_full` of PostgreSQL, or ENOSPC.
pub fn is_disk_full(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => error.code().is_some_and(|code| code == "13" || code == "53100"),
        sqlx::Error::Io(error) => error.kind() == ErrorKind::StorageFull,
        _ => false,
    }
}

impl From<sqlx::Error> for RpcError {
    fn from(error: sqlx::Error) -> RpcError {
        match is_disk_full(&error) {
            true => RpcError::no_space().caused_by(error),
            false => RpcError::store(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_url_keeps_its_prefix_and_shows_no_password() {
        let url: StoreUrl =
            "postgres://me:secret@localhost:5/db?schema_prefix=t1_&sslmode=disable".parse().unwrap();
        assert_eq!(
            url,
            StoreUrl::Postgres {
                url: "postgres://me:secret@localhost:5/db?sslmode=disable".into(),
                schema_prefix: "t1_".into()
            }
        );
        assert!(!url.shown().contains("secret"));
    }

    /// Without it a statement is parsed and planned again whenever the number bound to its `LIMIT` is set.
    #[tokio::test]
    async fn sqlite_keeps_the_plan_of_a_statement() {
        let (folder, migrations) = (tempfile::tempdir().unwrap(), Migrator::with_migrations(Vec::new()));
        let store = "sqlite:".parse().unwrap();
        let db = Db::open(&store, folder.path(), "test", &migrations, Durability::Full).await.unwrap();
        let question = "SELECT sqlite_compileoption_used('ENABLE_QPSG')";
        let used: i64 = sqlx::query_scalar(question).fetch_one(db.read()).await.unwrap();
        assert_eq!(used, 1, ".cargo/config.toml says how SQLite is built");
    }

    #[tokio::test]
    async fn a_write_that_finds_its_disk_full_is_told_so() {
        let (folder, migrations) = (tempfile::tempdir().unwrap(), Migrator::with_migrations(Vec::new()));
        let store = testing::store_url().parse().unwrap();
        let db = Db::open(&store, folder.path(), "test", &migrations, Durability::Full).await.unwrap();
        let mut writing = db.write.acquire().await.unwrap();
        let failing = match db.engine() {
            Engine::Sqlite => {
                run(&mut writing, "CREATE TABLE thing (text TEXT)").await.unwrap();
                run(&mut writing, "PRAGMA max_page_count = 3").await.unwrap();
                "INSERT INTO thing VALUES (hex(zeroblob(100000)))"
            }
            Engine::Postgres => "DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$",
        };
        let refused = RpcError::from(run(&mut writing, failing).await.unwrap_err());
        assert_eq!((refused.code(), refused.data("reason")), (5003, Some(&"no_space".into())), "{refused}");
        let other = RpcError::from(run(&mut writing, "SELECT nothing").await.unwrap_err());
        assert_eq!((other.code(), other.data("reason")), (5003, None));
    }

    #[tokio::test]
    async fn services_that_start_at_once_wait_for_the_lock_of_their_own_schema_only() {
        let store = testing::store_url().parse().unwrap();
        let StoreUrl::Postgres { url, schema_prefix } = &store else { return };
        let open = async |service: &str| {
            let migrations = Migrator::with_migrations(Vec::new());
            Db::open(&store, Path::new("unused"), service, &migrations, Durability::Full).await.unwrap()
        };
        let first = open("first").await;
        let mut holder = first.write.acquire().await.unwrap();
        run(&mut holder, &schema_lock("pg_advisory_lock")).await.unwrap();
        open("second").await;
        let mut again = std::pin::pin!(open("first"));
        let waiting = "SELECT COUNT(*) FROM pg_stat_activity
             WHERE wait_event = 'advisory' AND query LIKE '%migrations of%' AND datname = current_database()";
        let watcher = AnyPoolOptions::new().connect(url).await.unwrap();
        loop {
            let polled = timeout(Duration::from_millis(20), again.as_mut()).await;
            assert!(polled.is_err(), "{schema_prefix}first is migrated by one process at a time");
            let waits: i64 = sqlx::query_scalar(waiting).fetch_one(&watcher).await.unwrap();
            if waits > 0 {
                break;
            }
        }
        run(&mut holder, &schema_lock("pg_advisory_unlock")).await.unwrap();
        again.await;
    }

    #[test]
    fn other_stores_are_refused_with_a_sentence() {
        for bad in ["mysql://x", "", "postgres://x/y?schema_prefix=A;drop"] {
            assert!(bad.parse::<StoreUrl>().is_err(), "{bad}");
        }
    }
}
