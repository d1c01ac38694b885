//! The settings of `aund.toml`: their names and what they mean from the structs that read them, their defaults from what is printed.

use super::{markdown, read, root};
use crate::services;
use gateway::config::Config;
use std::collections::BTreeMap;
use std::fs;
use syn::{Attribute, Expr, ExprLit, Field, Ident, Item, Lit, Meta, Type};

/// The tables of the reference, each with its title.
pub(super) fn tables() -> Vec<(String, String)> {
    let shown = Config::parse("", &services::rows()).and_then(|config| config.shown()).unwrap();
    let defaults = toml::Value::Table(toml::from_str(&shown).unwrap());
    let mut tables =
        vec![("All processes".to_owned(), table(&structs(&gateway_sources()), "Config", "", &defaults))];
    for name in services::names().filter(|name| *name != "gateway") {
        let source = read(&format!("services/{name}/settings.rs"));
        let rows = table(&structs(&[source]), "Settings", &format!("{name}."), &defaults);
        tables.push((format!("`[{name}]`"), rows));
    }
    tables
}

fn gateway_sources() -> Vec<String> {
    let folder = fs::read_dir(root().join("gateway/src/config")).unwrap();
    let files = folder.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    files.chain([read("gateway/src/config.rs")]).collect()
}

/// Structs of settings, by name.
type SettingStructs = BTreeMap<String, Vec<SettingField>>;

/// A field of a struct of settings. One without a comment belongs to that of the field before it.
struct SettingField {
    name: String,
    /// The name of its type, without what is in angle brackets.
    kind: String,
    comment: String,
}

fn structs(sources: &[String]) -> SettingStructs {
    let mut structs = SettingStructs::new();
    for source in sources {
        for item in syn::parse_file(source).unwrap().items {
            if let Item::Struct(item) = item {
                structs.insert(item.ident.to_string(), item.fields.iter().filter_map(setting).collect());
            }
        }
    }
    structs
}

fn setting(field: &Field) -> Option<SettingField> {
    let is_skipped = |attribute: &Attribute| {
        attribute.path().is_ident("serde") && attribute.parse_args::<Ident>().is_ok_and(|word| word == "skip")
    };
    if field.attrs.iter().any(is_skipped) {
        return None;
    }
    let Type::Path(kind) = &field.ty else { return None };
    Some(SettingField {
        name: field.ident.as_ref()?.to_string(),
        kind: kind.path.segments.last()?.ident.to_string(),
        comment: field.attrs.iter().filter_map(comment_line).collect(),
    })
}

/// A line of a comment, which is an attribute to the compiler.
fn comment_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(line) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &line.value else { return None };
    line.path.is_ident("doc").then(|| text.value())
}

fn table(structs: &SettingStructs, name: &str, prefix: &str, defaults: &toml::Value) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    add_rows(structs, name, prefix, defaults, &mut rows);
    if rows.is_empty() {
        return "It has no settings yet.\n".to_owned();
    }
    markdown::table(["setting", "default", "what"], rows)
}

fn add_rows(
    structs: &SettingStructs,
    name: &str,
    prefix: &str,
    defaults: &toml::Value,
    rows: &mut Vec<[String; 3]>,
) {
    let first = rows.len();
    for field in &structs[name] {
        let path = format!("{prefix}{}", field.name);
        if structs.contains_key(&field.kind) {
            add_rows(structs, &field.kind, &format!("{path}."), defaults, rows);
            continue;
        }
        let (setting, default) = (format!("`{path}`"), default(&path, defaults));
        if !field.comment.is_empty() {
            rows.push([setting, default, field.comment.clone()]);
            continue;
        }
        let row = rows[first..].last_mut().unwrap_or_else(|| panic!("{path} has no comment"));
        row[0] += &format!(", {setting}");
        row[1] += &format!(", {default}");
    }
}

fn default(path: &str, defaults: &toml::Value) -> String {
    let found = path.split('.').try_fold(defaults, |value, key| value.get(key));
    found.map_or("unset".to_owned(), |value| format!("`{value}`"))
}

#[test]
fn fields_have_their_comments_and_those_without_one_share_the_one_before() {
    let source = "/// Not a field.\npub struct Settings {\n    /// How many,\n    /// at most.\n    pub most: u32,\n    pub more: u32,\n    \
                  pub inner: Inner,\n    #[serde(skip)]\n    pub left_out: u8,\n}\n\npub struct Inner {\n    /// Whether.\n    pub on: Option<bool>,\n}\n";
    let defaults = toml::Value::Table(toml::from_str("[x]\nmost = 1\nmore = 2\n").unwrap());
    let text = table(&structs(&[source.to_owned()]), "Settings", "x.", &defaults);
    let rows: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(
        rows,
        ["| `x.most`, `x.more` | `1`, `2` | How many, at most. |", "| `x.inner.on` | unset | Whether. |"]
    );
}
