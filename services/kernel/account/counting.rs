//! How the store counts: triggers on the tables of a service change the accounts with the rows.
//!
//! A row counts the bytes of some of its columns and 512 more, and the rows of other tables that it says it stands for. On PostgreSQL the rows of one statement are summed first, and accounts
//! are changed in one order: agents by their names, then domains. On SQLite there is one writer, and each row changes its account.

use super::kept::ROW_BYTES;
use super::payer::{DOMAIN, TENANT};
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
    /// The column with the AID of the agent that pays, or the key of a tenant (`Payer::key`). It never changes.
    pub payer: &'static str,
    /// The columns whose bytes count.
    pub columns: &'static [&'static str],
    /// Rows of other tables that count here.
    pub counted: &'static [CountedRows],
}

/// Columns of a row that say how many rows of another table belong to it, and how many bytes those have. Whoever inserts or removes such
/// rows changes these two numbers in the same transaction, once for all of them. Their table has no trigger, so a table with very many
/// small rows costs one change of an account for each transaction. It is listed in [`Keeping::free`] with this as the reason. Counting
/// again reads the numbers, and not those rows.
#[derive(Debug)]
pub struct CountedRows {
    /// How many rows: a `BIGINT`. Each of them counts 512 bytes, as every row does.
    pub rows: &'static str,
    /// How many bytes their columns have: a `BIGINT`.
    pub bytes: &'static str,
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
            "SELECT payer, CAST(SUM(bytes) AS BIGINT) AS bytes, CAST(SUM(kept_rows) AS BIGINT) AS kept_rows
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
        let own = self.columns.iter().fold(ROW_BYTES.to_string(), |mut sum, column| {
            let _ = write!(sum, " + COALESCE(octet_length({row}{column}), 0)");
            sum
        });
        self.counted.iter().fold(own, |mut sum, CountedRows { rows, bytes }| {
            let _ = write!(sum, " + COALESCE({row}{bytes}, 0) + {ROW_BYTES} * COALESCE({row}{rows}, 0)");
            sum
        })
    }

    /// How many rows a row counts for: itself, and those that it stands for.
    fn kept_rows(&self, row: &str) -> String {
        self.counted.iter().fold("1".to_owned(), |mut sum, CountedRows { rows, .. }| {
            let _ = write!(sum, " + COALESCE({row}{rows}, 0)");
            sum
        })
    }

    /// The columns whose changes change an account.
    fn watched(&self) -> Vec<&'static str> {
        let numbers = self.counted.iter().flat_map(|counted| [counted.rows, counted.bytes]);
        self.columns.iter().copied().chain(numbers).collect()
    }

    /// A row of `payer`, `bytes` and `kept_rows` for each row of a table, and one more for the domain of its agent if that is another one.
    fn counted(&self, engine: Engine, from: &str, issuer: &str) -> String {
        let (payer, bytes, rows) = (self.payer, self.bytes(""), self.kept_rows(""));
        let (domain, is_other) = (domain(engine, payer), is_of_other_domain(engine, payer, issuer));
        format!(
            "SELECT {payer} AS payer, {bytes} AS bytes, {rows} AS kept_rows FROM {from} UNION ALL
             SELECT '{DOMAIN}' || {domain}, {bytes}, {rows} FROM {from} WHERE {is_other}"
        )
    }

    fn sqlite_triggers(&self, issuer: &str) -> String {
        let KeptTable { name, payer, .. } = self;
        let new_agent = format!("NEW.{payer}");
        let new_domain = domain(Engine::Sqlite, &new_agent);
        let new_is_other = is_of_other_domain(Engine::Sqlite, &new_agent, issuer);
        let (new_bytes, old_bytes) = (self.bytes("NEW."), self.bytes("OLD."));
        let (new_rows, old_rows) = (self.kept_rows("NEW."), self.kept_rows("OLD."));
        let add = "ON CONFLICT (payer) DO UPDATE SET
             bytes = account.bytes + excluded.bytes, kept_rows = account.kept_rows + excluded.kept_rows";
        let added = format!(
            "INSERT INTO account (payer, bytes, kept_rows) VALUES (NEW.{payer}, {new_bytes}, {new_rows}) {add};
             INSERT INTO account (payer, bytes, kept_rows)
                 SELECT '{DOMAIN}' || {new_domain}, {new_bytes}, {new_rows} WHERE {new_is_other} {add};"
        );
        // A row that is there was counted, so its accounts are there. One statement for both would make a table of their names first.
        let each = |row: &str, statement: &str, more: &str| {
            let agent = format!("{row}{payer}");
            let domain = domain(Engine::Sqlite, &agent);
            let is_other = is_of_other_domain(Engine::Sqlite, &agent, issuer);
            format!(
                "{statement} WHERE payer = {agent}{more};
                 {statement} WHERE payer = '{DOMAIN}' || {domain} AND {is_other}{more};"
            )
        };
        let more_rows = match self.counted {
            [] => String::new(),
            _ => format!(", kept_rows = kept_rows + ({new_rows}) - ({old_rows})"),
        };
        let change = format!("UPDATE account SET bytes = bytes + ({new_bytes}) - ({old_bytes}){more_rows}");
        let remove =
            format!("UPDATE account SET bytes = bytes - ({old_bytes}), kept_rows = kept_rows - ({old_rows})");
        let changed = each("NEW.", &change, "");
        let emptied = each("OLD.", "DELETE FROM account", " AND kept_rows = 0 AND counted_on IS NULL");
        let removed = each("OLD.", &remove, "") + &emptied;
        let trigger = |event: &str, of: &str, when: &str, body: &str| {
            format!(
                "DROP TRIGGER IF EXISTS account_{event}_{name};
                 CREATE TRIGGER account_{event}_{name} AFTER {of} ON {name} FOR EACH ROW {when} BEGIN {body} END;\n"
            )
        };
        let of_columns = format!("UPDATE OF {}", self.watched().join(", "));
        let differs = format!("WHEN {}", self.differs("IS NOT"));
        trigger("insert", "INSERT", "", &added)
            + &trigger("delete", "DELETE", "", &removed)
            + &trigger("update", &of_columns, &differs, &changed)
    }

    /// Whether an update changes a column that counts: what is written as it was takes no account.
    fn differs(&self, is_not: &str) -> String {
        let watched = self.watched();
        let columns = watched.iter().map(|column| format!("OLD.{column} {is_not} NEW.{column}"));
        columns.collect::<Vec<_>>().join(" OR ")
    }

    fn postgres_triggers(&self, issuer: &str) -> String {
        let name = self.name;
        let change = |sign: &str, rows: &str| {
            format!(
                "INSERT INTO account (payer, bytes, kept_rows)
                     SELECT payer, {sign}SUM(bytes), {sign}SUM(kept_rows) FROM ({}) AS counted
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
            self.watched().join(", "),
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

/// Whether a payer is an agent of another domain. A tenant is no agent, whatever its name has after a dot.
fn is_of_other_domain(engine: Engine, payer: &str, issuer: &str) -> String {
    format!("{} <> '{issuer}' AND {payer} NOT LIKE '{TENANT}%'", domain(engine, payer))
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
