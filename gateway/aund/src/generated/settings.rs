//! The settings of `aund.toml`: their names and what they mean from the structs that read them, their defaults from what is printed.

use super::{markdown, read, root};
use crate::services;
use gateway::config::Config;
use std::collections::BTreeMap;
use std::fs;

/// The tables of the reference, each with its title.
pub(super) fn tables() -> Vec<(String, String)> {
    let shown = Config::parse("", &services::rows()).and_then(|config| config.shown()).unwrap();
    let defaults: toml::Table = toml::from_str(&shown).unwrap();
    let mut tables =
        vec![("All processes".to_owned(), table(&structs(&gateway_sources()), "Config", "", &defaults))];
    for name in services::names().filter(|name| *name != "gateway") {
        let source = read(&format!("services/{name}/settings.rs"));
        let rows = table(&structs(&source), "Settings", &format!("{name}."), &defaults);
        tables.push((format!("`[{name}]`"), rows));
    }
    tables
}

fn gateway_sources() -> String {
    let folder = root().join("gateway/src/config");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .fold(read("gateway/src/config.rs"), |all, one| all + &one)
}

/// A field of a struct of settings. One without a comment belongs to that of the field before it.
#[derive(Debug, PartialEq)]
struct SettingField {
    name: String,
    kind: String,
    comment: String,
}

/// The structs of a source as rustfmt writes it, with the fields that are settings.
fn structs(source: &str) -> BTreeMap<String, Vec<SettingField>> {
    let mut structs: BTreeMap<String, Vec<SettingField>> = BTreeMap::new();
    let (mut current, mut comment, mut skipped) = (None, String::new(), false);
    for line in source.lines() {
        if let Some(name) =
            line.strip_prefix("pub struct ").and_then(|rest| rest.split([' ', '(', ';']).next())
        {
            structs.insert(name.to_owned(), Vec::new());
            current = line.ends_with('{').then(|| name.to_owned());
            comment.clear();
        }
        let Some(name) = &current else { continue };
        let text = line.trim_start();
        if line == "}" {
            current = None;
        } else if let Some(words) = text.strip_prefix("///") {
            comment += words;
        } else if text == "#[serde(skip)]" {
            skipped = true;
        } else if let Some((field, kind)) = text.strip_prefix("pub ").and_then(|field| field.split_once(": "))
        {
            let (name, kind) = (name.clone(), kind.trim_end_matches(',').to_owned());
            let field = SettingField { name: field.to_owned(), kind, comment: std::mem::take(&mut comment) };
            if !std::mem::take(&mut skipped) {
                structs.entry(name).or_default().push(field);
            }
        }
    }
    structs
}

fn table(
    structs: &BTreeMap<String, Vec<SettingField>>,
    name: &str,
    prefix: &str,
    defaults: &toml::Table,
) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    add_rows(structs, name, prefix, defaults, &mut rows);
    if rows.is_empty() {
        return "It has no settings yet.\n".to_owned();
    }
    markdown::table(["setting", "default", "what"], rows)
}

fn add_rows(
    structs: &BTreeMap<String, Vec<SettingField>>,
    name: &str,
    prefix: &str,
    defaults: &toml::Table,
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

fn default(path: &str, defaults: &toml::Table) -> String {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let found = rest
        .split('.')
        .filter(|key| !key.is_empty())
        .try_fold(defaults.get(first), |value, key| Some(value?.get(key)));
    match found.flatten() {
        Some(value) => format!("`{value}`"),
        None => "unset".to_owned(),
    }
}

#[test]
fn fields_have_their_comments_and_those_without_one_share_the_one_before() {
    let source = "/// Not a field.\npub struct Settings {\n    /// How many,\n    /// at most.\n    pub most: u32,\n    pub more: u32,\n    \
                  pub inner: Inner,\n    #[serde(skip)]\n    pub left_out: u8,\n}\n\npub struct Inner {\n    /// Whether.\n    pub on: Option<bool>,\n}\n";
    let defaults: toml::Table = toml::from_str("[x]\nmost = 1\nmore = 2\n").unwrap();
    let text = table(&structs(source), "Settings", "x.", &defaults);
    let rows: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(
        rows,
        ["| `x.most`, `x.more` | `1`, `2` | How many, at most. |", "| `x.inner.on` | unset | Whether. |"]
    );
}
