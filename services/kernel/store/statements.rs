//! Several statements that go to the database as one: each way there and back takes longer than most of them.

use super::Engine;
use super::json_rows as json;
use serde::Serialize;
use sqlx::{Any, AnyConnection, AssertSqlSafe};

/// Statements that are made one after the other, each with a list of rows as its parameter.
pub struct Statements {
    engine: Engine,
    texts: Vec<String>,
    lists: Vec<String>,
}

impl Statements {
    pub fn new(engine: Engine) -> Statements {
        Statements { engine, texts: Vec::new(), lists: Vec::new() }
    }

    /// Adds a statement, made from the number of the parameter that has its list.
    pub fn add(&mut self, list: String, text: impl FnOnce(usize) -> String) {
        self.lists.push(list);
        self.texts.push(text(self.lists.len()));
    }

    /// Adds a statement whose list has rows of these columns.
    pub fn add_rows(
        &mut self,
        columns: &[json::Column],
        rows: &impl Serialize,
        text: impl FnOnce(usize) -> String,
    ) -> sqlx::Result<()> {
        self.add(json::rows_text(self.engine, columns, rows)?, text);
        Ok(())
    }

    /// An INSERT of rows, if there are any.
    pub fn insert<R: Serialize>(
        &mut self,
        table: &str,
        columns: &[json::Column],
        conflict: &str,
        rows: &[R],
    ) -> sqlx::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let engine = self.engine;
        self.add_rows(columns, &rows, |parameter| json::insert(engine, parameter, table, columns, conflict))
    }

    /// For statements that change rows, no two of them the same row: PostgreSQL shows none of them what another has changed.
    pub async fn execute(self, tx: &mut AnyConnection) -> sqlx::Result<()> {
        let Statements { engine, mut texts, lists } = self;
        let text = match engine {
            _ if texts.len() < 2 => texts.pop().unwrap_or_default(),
            Engine::Sqlite => texts.join("; "),
            Engine::Postgres => {
                let numbered = texts.iter().enumerate().map(|(n, text)| format!("change{n} AS ({text})"));
                format!("WITH {} SELECT 1", numbered.collect::<Vec<_>>().join(", "))
            }
        };
        if text.is_empty() {
            return Ok(());
        }
        let query = sqlx::query::<Any>(AssertSqlSafe(text));
        lists.into_iter().fold(query, |query, list| query.bind(list)).execute(tx).await?;
        Ok(())
    }

    /// For statements that read the same columns: the rows of all of them.
    pub async fn fetch(self, tx: &mut AnyConnection) -> sqlx::Result<Vec<(i64, String)>> {
        if self.texts.is_empty() {
            return Ok(Vec::new());
        }
        let query = sqlx::query_as::<Any, (i64, String)>(AssertSqlSafe(self.texts.join(" UNION ALL ")));
        self.lists.into_iter().fold(query, |query, list| query.bind(list)).fetch_all(tx).await
    }
}
