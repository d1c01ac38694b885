//! How many rows are bound to one parameter of a statement: as JSON, or as PostgreSQL writes an array.

use std::fmt::{Display, Write as _};

pub(crate) fn json(rows: &impl serde::Serialize) -> String {
    serde_json::to_string(rows).unwrap_or_default()
}

/// An array of numbers, for `CAST($1 AS BIGINT[])`.
pub(crate) fn array<T: Display>(numbers: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("{");
    for (position, number) in numbers.into_iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{number}", if position > 0 { "," } else { "" });
    }
    text.push('}');
    text
}
