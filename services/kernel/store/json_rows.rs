//! Many rows in one statement: they go to the database as one text of JSON, which each engine reads in its own way, and a row comes
//! back as one text, because a value for each column costs more on its way than its JSON.

use super::Engine;
use serde::{Deserialize, Serialize};

/// A column of rows that are written, and its type.
pub type Column = (&'static str, &'static str);

/// `(SELECT …)` of the texts in a list, which is the parameter of this number.
pub fn texts(engine: Engine, parameter: usize) -> String {
    match engine {
        Engine::Sqlite => format!("(SELECT value FROM json_each(${parameter}))"),
        Engine::Postgres => {
            format!("(SELECT value FROM json_array_elements_text(CAST(${parameter} AS json)))")
        }
    }
}

/// What follows FROM: the parameter of this number as a table `given` of these columns.
pub fn rows(engine: Engine, parameter: usize, columns: &[Column]) -> String {
    match engine {
        Engine::Sqlite => {
            let each = columns.iter().map(|(name, _)| format!("json_extract(value, '$.{name}') AS {name}"));
            // Parsed once, as a whole: `json_each` would write each row as text, which is parsed for each of its columns.
            format!("(SELECT {} FROM jsonb_each(${parameter})) AS given", each.collect::<Vec<_>>().join(", "))
        }
        Engine::Postgres => {
            let each = columns.iter().map(|(name, kind)| format!("{name} {kind}"));
            let each = each.collect::<Vec<_>>().join(", ");
            format!("json_to_recordset(CAST(${parameter} AS json)) AS given({each})")
        }
    }
}

/// An INSERT of all rows in the parameter of this number; `conflict` is what follows ON CONFLICT, if anything does.
pub fn insert(engine: Engine, parameter: usize, table: &str, columns: &[Column], conflict: &str) -> String {
    let names = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let from = rows(engine, parameter, columns);
    let conflict = if conflict.is_empty() { String::new() } else { format!(" ON CONFLICT {conflict}") };
    // Without a WHERE, SQLite takes ON CONFLICT for the condition of a join.
    format!("INSERT INTO {table} ({names}) SELECT {names} FROM {from} WHERE true{conflict}")
}

/// `DO UPDATE SET` of these columns to what was to be inserted.
pub fn replace(columns: &[&str]) -> String {
    let set: Vec<String> = columns.iter().map(|name| format!("{name} = excluded.{name}")).collect();
    format!("DO UPDATE SET {}", set.join(", "))
}

/// These columns of a row as one text, which [`read`] takes.
pub fn row(engine: Engine, columns: &str) -> String {
    match engine {
        Engine::Sqlite => format!("json_array({columns})"),
        Engine::Postgres => format!("CAST(json_build_array({columns}) AS TEXT)"),
    }
}

/// For PostgreSQL: the rows of a table, as `found`, for each value of another one, each looked up in an index. A join would be
/// planned by statistics, and where there are none yet it would read the whole table.
pub fn each(values: &str, value: &str, table: &str, column: &str) -> String {
    format!("{values} CROSS JOIN LATERAL (SELECT * FROM {table} WHERE {column} = {value} OFFSET 0) AS found")
}

/// A row that was read as one text; the members are in the order of the columns.
pub fn read<'r, R: Deserialize<'r>>(row: &'r str) -> sqlx::Result<R> {
    serde_json::from_str(row).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub fn text(rows: &impl Serialize) -> sqlx::Result<String> {
    serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(error.into()))
}
