//! Many rows in one statement: they go to the database as one text of JSON, which each engine reads in its own way.

use crate::kernel::Engine;
use serde::Serialize;

/// A column of rows that are written, and its type.
pub(super) type Column = (&'static str, &'static str);

/// `(SELECT …)` of the texts in a list, which is the parameter of this number.
pub(super) fn texts(engine: Engine, parameter: usize) -> String {
    match engine {
        Engine::Sqlite => format!("(SELECT value FROM json_each(${parameter}))"),
        Engine::Postgres => {
            format!("(SELECT value FROM json_array_elements_text(CAST(${parameter} AS json)))")
        }
    }
}

/// What follows FROM: the first parameter as a table `given` of these columns.
pub(super) fn rows(engine: Engine, columns: &[Column]) -> String {
    match engine {
        Engine::Sqlite => {
            let each = columns.iter().map(|(name, _)| format!("json_extract(value, '$.{name}') AS {name}"));
            format!("(SELECT {} FROM json_each($1)) AS given", each.collect::<Vec<_>>().join(", "))
        }
        Engine::Postgres => {
            let each = columns.iter().map(|(name, kind)| format!("{name} {kind}"));
            let each = each.collect::<Vec<_>>().join(", ");
            format!("json_to_recordset(CAST($1 AS json)) AS given({each})")
        }
    }
}

/// An INSERT of all rows in the first parameter; `conflict` is what follows ON CONFLICT, if anything does.
pub(super) fn insert(engine: Engine, table: &str, columns: &[Column], conflict: &str) -> String {
    let names = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let from = rows(engine, columns);
    let conflict = if conflict.is_empty() { String::new() } else { format!(" ON CONFLICT {conflict}") };
    // Without a WHERE, SQLite takes ON CONFLICT for the condition of a join.
    format!("INSERT INTO {table} ({names}) SELECT {names} FROM {from} WHERE true{conflict}")
}

/// `DO UPDATE SET` of these columns to what was to be inserted.
pub(super) fn replace(columns: &[&str]) -> String {
    let set: Vec<String> = columns.iter().map(|name| format!("{name} = excluded.{name}")).collect();
    format!("DO UPDATE SET {}", set.join(", "))
}

pub(super) fn text(rows: &impl Serialize) -> sqlx::Result<String> {
    serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(error.into()))
}
