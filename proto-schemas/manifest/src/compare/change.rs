//! What the comparison of schemas passes on.

use serde_json::Value;
use std::borrow::Cow;

/// A change at a path of the schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SchemaChange {
    pub path: String,
    pub rule: &'static str,
    pub breaking: bool,
}

/// A part of the old schema, that of the new one it is compared with, and the path of the latter.
pub(super) type SchemaPair<'s> = (&'s Value, &'s Value, Cow<'s, str>);
