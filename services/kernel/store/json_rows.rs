//! Many rows in one statement: they go to the database as one text of JSON, which each engine reads in its own way, and a row comes
//! back as one text, or many of them do, because a value for each column costs more on its way than its JSON.

use super::Engine;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

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

/// What follows FROM: the parameter of this number as a table `given` of these columns. [`rows_text`] makes it.
pub fn rows(engine: Engine, parameter: usize, columns: &[Column]) -> String {
    match engine {
        Engine::Sqlite => {
            let each = columns.iter().enumerate();
            let each = each.map(|(place, (name, _))| format!("json_extract(value, '$[{place}]') AS {name}"));
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

/// These columns of all rows as one text, which [`read`] takes as a list. The list is empty if there are no rows.
pub fn list(engine: Engine, columns: &str) -> String {
    match engine {
        Engine::Sqlite => format!("json_group_array(json_array({columns}))"),
        Engine::Postgres => {
            format!("COALESCE(CAST(json_agg(json_build_array({columns})) AS TEXT), '[]')")
        }
    }
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

/// A list of texts.
pub fn text(texts: &impl Serialize) -> sqlx::Result<String> {
    serde_json::to_string(texts).map_err(encoding)
}

/// A list of rows for [`rows`] and [`insert`]: their members are these columns, in this order.
pub fn rows_text(engine: Engine, columns: &[Column], rows: &impl Serialize) -> sqlx::Result<String> {
    match engine {
        Engine::Postgres => text(rows),
        Engine::Sqlite => {
            let mut written = Vec::with_capacity(1024);
            let values = RowValues { columns, place: 0, in_row: false, in_name: false };
            rows.serialize(&mut Serializer::with_formatter(&mut written, values)).map_err(encoding)?;
            String::from_utf8(written).map_err(encoding)
        }
    }
}

fn encoding(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Encode(error.into())
}

/// Writes a row as the list of its values. SQLite finds a member by comparing its name with all names before it, for each column of each
/// row. It finds a place in half of the steps, and has no names to parse.
struct RowValues<'c> {
    columns: &'c [Column],
    place: usize,
    in_row: bool,
    in_name: bool,
}

impl Formatter for RowValues<'_> {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.in_row {
            return Err(io::Error::other("a row has a value that is no text and no number"));
        }
        (self.in_row, self.place) = (true, 0);
        writer.write_all(b"[")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.place != self.columns.len() {
            return Err(io::Error::other("a row has fewer members than its table has columns"));
        }
        self.in_row = false;
        writer.write_all(b"]")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.in_name = true;
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        (self.in_name, self.place) = (false, self.place + 1);
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        Ok(())
    }

    fn begin_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.in_name { Ok(()) } else { writer.write_all(b"\"") }
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.in_name { Ok(()) } else { writer.write_all(b"\"") }
    }

    /// A value in the place of another column would be stored there.
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        match self.in_name {
            false => writer.write_all(text.as_bytes()),
            true if self.columns.get(self.place).is_some_and(|(name, _)| *name == text) => Ok(()),
            true => Err(io::Error::other(format!("{text} is not column {} of its table", self.place))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        id: i64,
        name: &'static str,
        note: Option<&'static str>,
    }

    const COLUMNS: [Column; 3] = [("id", "BIGINT"), ("name", "TEXT"), ("note", "TEXT")];

    #[test]
    fn a_row_for_sqlite_is_the_list_of_its_values() {
        let rows =
            [Row { id: 1, name: "a \"b\" ä\n", note: None }, Row { id: -2, name: "", note: Some("id") }];
        let text = rows_text(Engine::Sqlite, &COLUMNS, &rows).unwrap();
        assert_eq!(text, r#"[[1,"a \"b\" ä\n",null],[-2,"","id"]]"#);
        assert_eq!(rows_text(Engine::Sqlite, &COLUMNS, &[] as &[Row; 0]).unwrap(), "[]");
        let text = rows_text(Engine::Postgres, &COLUMNS, &rows[1..].iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(text, r#"[{"id":-2,"name":"","note":"id"}]"#);
    }

    #[test]
    fn members_in_another_order_than_the_columns_are_an_error() {
        let row = || [Row { id: 1, name: "a", note: None }];
        let [id, name, note] = COLUMNS;
        for columns in [vec![name, id, note], vec![id, name], vec![id, name, note, ("more", "TEXT")], vec![]]
        {
            assert!(rows_text(Engine::Sqlite, &columns, &row()).is_err(), "{columns:?}");
        }
        assert!(
            rows_text(Engine::Sqlite, &COLUMNS[..1], &[serde_json::json!({ "id": { "id": 1 } })]).is_err()
        );
    }
}
