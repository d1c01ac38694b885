//! The other side: an FTS5 table of SQLite with the same words, asked as its documentation says is fastest.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, SqliteConnection};

use super::super::process::Pid;
use super::super::rounds::{Latencies, RoundLoad, Sample};
use super::BenchRow;

/// Words are separated by spaces already. `rank` has the weights of ours.
const TABLES: &str = "
    CREATE TABLE document (id INTEGER PRIMARY KEY, aid TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL);
    CREATE VIRTUAL TABLE words USING fts5 (name, tags, skills, description, body, tokenize = 'unicode61 remove_diacritics 0');
    INSERT INTO words (words, rank) VALUES ('rank', 'bm25(8.0, 6.0, 4.0, 3.0, 1.0)')";

const INSERT_DOCUMENTS: &str = "INSERT INTO document (id, aid, name, description)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each($1)";

const INSERT_WORDS: &str = "INSERT INTO words (rowid, name, tags, skills, description, body)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each($1)";

const TEN_BEST: &str = "SELECT aid, name, description FROM document JOIN
    (SELECT rowid AS id FROM words WHERE words MATCH $1 ORDER BY rank LIMIT 10) USING (id)";

const ROWS_AT_ONCE: usize = 1000;

/// Enough that nothing is read from the file twice.
const CACHE_KIB: &str = "-524288";

pub(super) struct Fts5 {
    connection: SqliteConnection,
    matches: Vec<String>,
    next: usize,
}

impl Fts5 {
    /// `questions` are the words of each.
    pub(super) async fn new(
        file: &Path,
        rows: &[BenchRow],
        questions: &[Vec<String>],
    ) -> anyhow::Result<Self> {
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).pragma("cache_size", CACHE_KIB);
        let mut connection = options.connect().await.context("SQLite could not be opened")?;
        connection.execute(TABLES).await.context("this SQLite has no FTS5")?;
        for (number, rows) in rows.chunks(ROWS_AT_ONCE).enumerate() {
            insert(&mut connection, rows, number * ROWS_AT_ONCE).await?;
        }
        // All segments of the table become one, which is the fastest to read.
        connection.execute("INSERT INTO words (words) VALUES ('optimize')").await?;
        let matches = questions.iter().map(|words| any_of(words)).collect();
        Ok(Self { connection, matches, next: 0 })
    }
}

async fn insert(connection: &mut SqliteConnection, rows: &[BenchRow], first: usize) -> anyhow::Result<()> {
    let mut transaction = connection.begin().await?;
    let numbered = || rows.iter().enumerate().map(|(number, row)| (first + number, row));
    let documents: Vec<_> = numbered()
        .map(|(id, BenchRow { aid, name, description, .. })| (id, aid, name, description))
        .collect();
    let documents = serde_json::to_string(&documents)?;
    sqlx::query(INSERT_DOCUMENTS).bind(documents).execute(&mut *transaction).await?;
    let words: Vec<_> = numbered()
        .map(|(id, row)| {
            let [name, tags, skills, description, body] = &row.texts;
            (id, name, tags, skills, description, body)
        })
        .collect();
    sqlx::query(INSERT_WORDS).bind(serde_json::to_string(&words)?).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

/// A match expression for any of these words.
fn any_of(words: &[String]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ")
}

impl RoundLoad for Fts5 {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let (meter, until, mut latencies) = (Pid::own().meter()?, Instant::now() + span, Latencies::new()?);
        loop {
            let started = Instant::now();
            if started >= until {
                return meter.stop(&latencies);
            }
            let query = sqlx::query_as::<_, (String, String, String)>(TEN_BEST);
            let question = &self.matches[self.next % self.matches.len()];
            query.bind(question).fetch_all(&mut self.connection).await?;
            self.next += 1;
            latencies.record(started.elapsed());
        }
    }
}
