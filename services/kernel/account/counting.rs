//! How the store counts: triggers on the tables of a service change the accounts with the rows.
//!
//! A row counts the bytes of some of its columns and 512 more. On PostgreSQL the rows of one statement are summed first, and accounts
//! are changed in one order: agents by their names, then domains. On SQLite there is one writer, and each row changes its account.

use super::kept::ROW_BYTES;
use super::payer::DOMAIN;
use crate::{Db, Engine};
use anyhow::bail;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Executor as _};
use std::fmt::Write as _;
use std::time::Duration;

/// What the tables of a service keep, and for whom.
#[derive(Debug)]
pub struct Keeping {
    pub service: &'static str,
    pub tables: &'static [KeptTable],
    /// Every other table, with the reason why nobody pays for its rows.
    pub free: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub struct KeptTable {
    pub name: &'static str,
    /// The column with the AID of the agent that pays. It never changes.
    pub payer: &'static str,
    /// The columns whose bytes count.
    pub columns: &'static [&'static str],
}

/// The statements that have the store count, and count again.
pub(super) struct Counting {
    engine: Engine,
    triggers: String,
    lock: String,
    recount: String,
    differing: String,
}

/// `counted_on` is the day of an account of a network: such an account is not the sum of rows that are there.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS account (
        payer TEXT PRIMARY KEY,
        bytes BIGINT NOT NULL,
        kept_rows BIGINT NOT NULL,
        counted_on BIGINT
    );
    CREATE INDEX IF NOT EXISTS account_large ON account (bytes) WHERE bytes > 1048576;
    CREATE INDEX IF NOT EXISTS account_of_day ON account (counted_on) WHERE counted_on IS NOT NULL;
    CREATE TABLE IF NOT EXISTS account_limit (
        aid TEXT PRIMARY KEY,
        bytes BIGINT NOT NULL,
        kept_rows BIGINT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS account_counting (
        id BIGINT PRIMARY KEY,
        definition TEXT NOT NULL
    )";
/// What [`Account::remove_empty`](super::Account) looks for. On SQLite nothing does, and each row that counts would pay for it.
const EMPTY_ON_POSTGRES: &str =
    "CREATE INDEX IF NOT EXISTS account_empty ON account (payer) WHERE kept_rows = 0 AND counted_on IS NULL";
const EMPTY_ON_SQLITE: &str = "DROP INDEX IF EXISTS account_empty";
/// How often it is tried to lock tables that others write to, and how long it waits after each time.
const LOCK_ATTEMPTS: u32 = 60;
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// Those that every service with accounts has.
const OWN_TABLES: [&str; 5] =
    ["account", "account_limit", "account_counting", "agent_removal", "_sqlx_migrations"];

impl Counting {
    pub fn new(keeping: &Keeping, engine: Engine, issuer: &str) -> Counting {
        let triggers = keeping.tables.iter().map(|table| match engine {
            Engine::Sqlite => table.sqlite_triggers(issuer),
            Engine::Postgres => table.postgres_triggers(issuer),
        });
        let rows: Vec<String> =
            keeping.tables.iter().map(|table| table.counted(engine, table.name, issuer)).collect();
        let sums = format!(
            "SELECT payer, CAST(SUM(bytes) AS BIGINT) AS bytes, CAST(COUNT(*) AS BIGINT) AS kept_rows
             FROM ({}) AS counted GROUP BY payer",
            rows.join(" UNION ALL ")
        );
        let names: Vec<&str> = keeping.tables.iter().map(|table| table.name).collect();
        Counting {
            engine,
            triggers: triggers.collect(),
            lock: format!("LOCK TABLE account, {} IN SHARE ROW EXCLUSIVE MODE", names.join(", ")),
            recount: format!(
                "DELETE FROM account WHERE counted_on IS NULL; INSERT INTO account (payer, bytes, kept_rows) {sums}"
            ),
            differing: format!(
                "SELECT COUNT(*) FROM (
                     SELECT payer FROM ({sums} UNION ALL
                         SELECT payer, -bytes, -kept_rows FROM account WHERE counted_on IS NULL) AS beside
                     GROUP BY payer HAVING SUM(bytes) <> 0 OR SUM(kept_rows) <> 0) AS differing"
            ),
        }
    }

    /// Begins to count, unless the store counts this way already.
    pub async fn begin(&self, db: &Db, keeping: &Keeping) -> anyhow::Result<()> {
        let mut tx = db.write().await?;
        self.alone(&mut tx).await?;
        run(&mut tx, TABLES).await?;
        let empty = match self.engine {
            Engine::Sqlite => EMPTY_ON_SQLITE,
            Engine::Postgres => EMPTY_ON_POSTGRES,
        };
        run(&mut tx, empty).await?;
        tx.commit().await?;
        // Apart: what makes tables keeps them locked until its commit.
        let mut tx = db.write().await?;
        self.alone(&mut tx).await?;
        let counted: Option<String> =
            sqlx::query_scalar("SELECT definition FROM account_counting WHERE id = 1")
                .fetch_optional(&mut *tx)
                .await?;
        if counted.as_ref() != Some(&self.triggers) {
            self.every_table_is_listed(&mut tx, keeping).await?;
            self.lock_tables(&mut tx).await?;
            run(&mut tx, &self.triggers).await?;
            run(&mut tx, &self.recount).await?;
            sqlx::query(
                "INSERT INTO account_counting (id, definition) VALUES (1, $1)
                 ON CONFLICT (id) DO UPDATE SET definition = excluded.definition",
            )
            .bind(self.triggers.as_str())
            .execute(&mut *tx)
            .await?;
        }
        Ok(tx.commit().await?)
    }

    /// Counts everything again. Returns how many accounts were not what their rows are.
    pub async fn recount(&self, db: &Db) -> sqlx::Result<i64> {
        let mut tx = db.begin().await?;
        self.lock_tables(&mut tx).await?;
        let differing = self.differing(&mut tx).await?;
        run(&mut tx, &self.recount).await?;
        db.commit(tx).await?;
        Ok(differing)
    }

    pub(super) async fn differing(&self, tx: &mut AnyConnection) -> sqlx::Result<i64> {
        sqlx::query_scalar::<Any, i64>(AssertSqlSafe(self.differing.clone())).fetch_one(tx).await
    }

    /// Processes that start at once do this one after the other.
    async fn alone(&self, tx: &mut AnyConnection) -> sqlx::Result<()> {
        match self.engine {
            Engine::Sqlite => Ok(()),
            Engine::Postgres => {
                let key = "hashtextextended('accounts of ' || CAST(current_schema() AS TEXT), 0)";
                run(tx, &format!("SELECT pg_advisory_xact_lock({key})")).await
            }
        }
    }

    /// Nobody writes until the end of the transaction.
    ///
    /// Others take accounts and tables in either order, so one of them may wait for us while we wait for it. Then it is not the one that
    /// fails: we wait for less than the second after which PostgreSQL looks for such circles, give back what we have, and try again.
    async fn lock_tables(&self, tx: &mut AnyConnection) -> sqlx::Result<()> {
        if self.engine == Engine::Sqlite {
            return Ok(());
        }
        run(tx, "SET LOCAL lock_timeout = '400ms'").await?;
        for attempt in 1.. {
            run(tx, "SAVEPOINT unlocked").await?;
            match run(tx, &self.lock).await {
                Ok(()) => break,
                Err(error) if attempt == LOCK_ATTEMPTS => return Err(error),
                Err(_) => run(tx, "ROLLBACK TO SAVEPOINT unlocked").await?,
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        run(tx, "SET LOCAL lock_timeout = 0").await
    }

    /// A table that nobody thought of is found at the first start, and not when it fills the disk.
    async fn every_table_is_listed(&self, tx: &mut AnyConnection, keeping: &Keeping) -> anyhow::Result<()> {
        let names = match self.engine {
            Engine::Sqlite => {
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            }
            Engine::Postgres => {
                "SELECT CAST(table_name AS TEXT) FROM information_schema.tables
                 WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
            }
        };
        let names: Vec<String> = sqlx::query_scalar(names).fetch_all(tx).await?;
        let listed = |name: &str| {
            OWN_TABLES.contains(&name)
                || keeping.tables.iter().any(|table| table.name == name)
                || keeping.free.iter().any(|(free, _)| *free == name)
        };
        match names.iter().find(|name| !listed(name)) {
            Some(name) => {
                bail!("the rows of {name} have no payer, and {} does not say why", keeping.service)
            }
            None => Ok(()),
        }
    }
}

impl KeptTable {
    /// What a row counts. `row` is the name of what has its columns, or nothing.
    fn bytes(&self, row: &str) -> String {
        self.columns.iter().fold(ROW_BYTES.to_string(), |mut sum, column| {
            let _ = write!(sum, " + COALESCE(octet_length({row}{column}), 0)");
            sum
        })
    }

    /// A row of `payer` and `bytes` for each row of a table, and one more for the domain of its agent if that is another one.
    fn counted(&self, engine: Engine, from: &str, issuer: &str) -> String {
        let (payer, bytes) = (self.payer, self.bytes(""));
        let domain = domain(engine, payer);
        format!(
            "SELECT {payer} AS payer, {bytes} AS bytes FROM {from} UNION ALL
             SELECT '{DOMAIN}' || {domain}, {bytes} FROM {from} WHERE {domain} <> '{issuer}'"
        )
    }

    fn sqlite_triggers(&self, issuer: &str) -> String {
        let KeptTable { name, payer, columns } = self;
        let new_domain = domain(Engine::Sqlite, &format!("NEW.{payer}"));
        let (new_bytes, old_bytes) = (self.bytes("NEW."), self.bytes("OLD."));
        let add = "ON CONFLICT (payer) DO UPDATE SET
             bytes = account.bytes + excluded.bytes, kept_rows = account.kept_rows + excluded.kept_rows";
        let added = format!(
            "INSERT INTO account (payer, bytes, kept_rows) VALUES (NEW.{payer}, {new_bytes}, 1) {add};
             INSERT INTO account (payer, bytes, kept_rows)
                 SELECT '{DOMAIN}' || {new_domain}, {new_bytes}, 1 WHERE {new_domain} <> '{issuer}' {add};"
        );
        // A row that is there was counted, so its accounts are there. One statement for both would make a table of their names first.
        let each = |row: &str, statement: &str, more: &str| {
            let agent = format!("{row}{payer}");
            let domain = domain(Engine::Sqlite, &agent);
            format!(
                "{statement} WHERE payer = {agent}{more};
                 {statement} WHERE payer = '{DOMAIN}' || {domain} AND {domain} <> '{issuer}'{more};"
            )
        };
        let change = format!("UPDATE account SET bytes = bytes + ({new_bytes}) - ({old_bytes})");
        let remove = format!("UPDATE account SET bytes = bytes - ({old_bytes}), kept_rows = kept_rows - 1");
        let changed = each("NEW.", &change, "");
        let emptied = each("OLD.", "DELETE FROM account", " AND kept_rows = 0 AND counted_on IS NULL");
        let removed = each("OLD.", &remove, "") + &emptied;
        let trigger = |event: &str, of: &str, when: &str, body: &str| {
            format!(
                "DROP TRIGGER IF EXISTS account_{event}_{name};
                 CREATE TRIGGER account_{event}_{name} AFTER {of} ON {name} FOR EACH ROW {when} BEGIN {body} END;\n"
            )
        };
        let of_columns = format!("UPDATE OF {}", columns.join(", "));
        let differs = format!("WHEN {}", self.differs("IS NOT"));
        trigger("insert", "INSERT", "", &added)
            + &trigger("delete", "DELETE", "", &removed)
            + &trigger("update", &of_columns, &differs, &changed)
    }

    /// Whether an update changes a column that counts: what is written as it was takes no account.
    fn differs(&self, is_not: &str) -> String {
        let columns = self.columns.iter().map(|column| format!("OLD.{column} {is_not} NEW.{column}"));
        columns.collect::<Vec<_>>().join(" OR ")
    }

    fn postgres_triggers(&self, issuer: &str) -> String {
        let KeptTable { name, columns, .. } = self;
        let change = |sign: &str, rows: &str| {
            format!(
                "INSERT INTO account (payer, bytes, kept_rows)
                     SELECT payer, {sign}SUM(bytes), {sign}COUNT(*) FROM ({}) AS counted
                     GROUP BY payer ORDER BY payer LIKE '{DOMAIN}%', payer
                     ON CONFLICT (payer) DO UPDATE SET
                         bytes = account.bytes + excluded.bytes, kept_rows = account.kept_rows + excluded.kept_rows;",
                self.counted(Engine::Postgres, rows, issuer)
            )
        };
        let changed_row = change("-", "(SELECT OLD.*) AS removed") + &change("", "(SELECT NEW.*) AS added");
        let removed_payers = self.counted(Engine::Postgres, "changed_rows", issuer);
        let emptied = format!(
            "DELETE FROM account WHERE kept_rows = 0 AND counted_on IS NULL
                 AND payer IN (SELECT payer FROM ({removed_payers}) AS counted);"
        );
        let function = |event: &str, body: &str| {
            format!(
                "CREATE OR REPLACE FUNCTION account_{event}_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN {body} RETURN NULL; END $$;
                 DROP TRIGGER IF EXISTS account_{event}_{name} ON {name};\n"
            )
        };
        let of_statement = |event: &str, rows: &str| {
            format!(
                "CREATE TRIGGER account_{event}_{name} AFTER {event} ON {name} REFERENCING {rows} TABLE AS changed_rows
                 FOR EACH STATEMENT EXECUTE FUNCTION account_{event}_{name}();\n"
            )
        };
        // Sums of a whole statement cannot be had for updates of some columns only, and most updates are of others.
        let of_row = format!(
            "CREATE TRIGGER account_update_{name} AFTER UPDATE OF {} ON {name}
             FOR EACH ROW WHEN ({}) EXECUTE FUNCTION account_update_{name}();\n",
            columns.join(", "),
            self.differs("IS DISTINCT FROM")
        );
        function("insert", &change("", "changed_rows"))
            + &of_statement("insert", "NEW")
            + &function("delete", &format!("{} {emptied}", change("-", "changed_rows")))
            + &of_statement("delete", "OLD")
            + &function("update", &changed_row)
            + &of_row
    }
}

/// The domain of an AID: what follows its first dot.
fn domain(engine: Engine, aid: &str) -> String {
    match engine {
        Engine::Sqlite => format!("substr({aid}, instr({aid}, '.') + 1)"),
        Engine::Postgres => format!("substr({aid}, strpos({aid}, '.') + 1)"),
    }
}

async fn run(tx: &mut AnyConnection, sql: &str) -> sqlx::Result<()> {
    tx.execute(AssertSqlSafe(sql.to_owned())).await.map(drop)
}
