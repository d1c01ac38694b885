//! Reads every schema file once, refuses what is malformed, and writes the tables that `src/lib.rs` includes.
//!
//! What this script has let through is well-formed, so nothing in the crate can fail to parse later.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, process};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The folders that hold no methods; every other folder is a namespace.
const NOT_NAMESPACES: [&str; 5] = ["common", "events", "src", "tests", "target"];

/// A schema file: its path, relative to the crate, and its content.
struct SchemaFile {
    path: String,
    doc: Value,
}

fn main() {
    if let Err(sentence) = generate(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        println!("cargo::error={sentence}");
        process::exit(1);
    }
}

fn generate(root: &Path) -> Result<(), String> {
    let errors = read(root, "errors.json")?;
    let methods = methods(root)?;
    let events = folder(root, "events")?;
    let common = folder(root, "common")?;

    check_errors(&errors.doc)?;
    for method in &methods {
        check_method(method, &errors.doc)?;
    }
    for event in &events {
        check_event(event)?;
    }
    watch(root, "errors.json");
    watch(root, "build.rs");

    save("codes.rs", &codes_source(&errors.doc))?;
    save("tables.rs", &tables_source(&methods, &events, &common))
}

// ---- Reading ----

fn methods(root: &Path) -> Result<Vec<SchemaFile>, String> {
    // The root itself is watched, so that a new namespace is noticed.
    watch(root, "");
    let mut found = Vec::new();
    for name in names(root)? {
        if root.join(&name).is_dir() && !name.starts_with('.') && !NOT_NAMESPACES.contains(&name.as_str()) {
            found.extend(folder(root, &name)?);
        }
    }
    // `find` is a binary search, and paths sort differently from names once a name has a third part.
    found.sort_by(|a, b| a.doc["method"].as_str().cmp(&b.doc["method"].as_str()));
    Ok(found)
}

/// All files of a folder and of the folders in it, in alphabetical order.
fn folder(root: &Path, path: &str) -> Result<Vec<SchemaFile>, String> {
    watch(root, path);
    let mut files = Vec::new();
    for name in names(&root.join(path))? {
        let path = format!("{path}/{name}");
        if root.join(&path).is_dir() {
            files.extend(folder(root, &path)?);
        } else if name.ends_with(".json") {
            watch(root, &path);
            files.push(read(root, &path)?);
        } else {
            return Err(format!("{path}: every file in a schema folder must be a .json file"));
        }
    }
    Ok(files)
}

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn read(root: &Path, path: &str) -> Result<SchemaFile, String> {
    let text = fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
    let NoDuplicateKeys(doc) = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    if !doc.is_object() {
        return Err(format!("{path}: the file must hold one JSON object"));
    }
    Ok(SchemaFile { path: path.to_owned(), doc })
}

fn watch(root: &Path, path: &str) {
    println!("cargo::rerun-if-changed={}", root.join(path).display());
}

// ---- Checking ----

fn check_errors(errors: &Value) -> Result<(), String> {
    for (name, row) in entries(errors) {
        let code = row["code"].as_i64().and_then(|code| i32::try_from(code).ok());
        if code.is_none() || !row["retryable"].is_boolean() || !is_text(&row["description"]) {
            return Err(format!(
                "errors.json: {name} needs an integer code, a boolean retryable and a description"
            ));
        }
        if !row["message"].as_str().is_some_and(is_sentence) {
            return Err(format!(
                "errors.json: the message of {name} must be a lower-case sentence without a full stop"
            ));
        }
        if !name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
            return Err(format!("errors.json: {name} must be written in capitals and underscores"));
        }
    }
    Ok(())
}

fn check_method(SchemaFile { path, doc }: &SchemaFile, errors: &Value) -> Result<(), String> {
    let name = doc["method"].as_str().ok_or(format!("{path}: the file must name its method"))?;
    if *path != format!("{}.json", name.replace('.', "/")) {
        return Err(format!("{path}: the path of a method must be its name, and the file names {name}"));
    }
    if variant(doc, "access").is_none() {
        return Err(format!("{path}: access must be public, session, internal or peer"));
    }
    if variant(doc, "rate").is_none() {
        return Err(format!("{path}: rate must be register, login, call or ping"));
    }
    if !is_text(&doc["summary"]) || !is_text(&doc["description"]) {
        return Err(format!("{path}: a method needs a summary and a description"));
    }
    if doc["params"]["type"] != "object" {
        return Err(format!("{path}: params must be a schema of type object"));
    }
    if doc["result"].is_object() == is_notification(doc) {
        return Err(format!("{path}: a method must have a result schema, and a notification must not"));
    }
    check_federation(path, doc)?;
    check_names(path, doc, errors)?;
    check_examples(path, doc)
}

fn check_federation(path: &str, doc: &Value) -> Result<(), String> {
    let Some(federation) = doc.get("federation") else { return Ok(()) };
    for member in ["by", "again"] {
        let known = match federation.get(member) {
            None => true,
            Some(name) => name.as_str().is_some_and(|name| doc["params"]["properties"].get(name).is_some()),
        };
        if !known {
            return Err(format!("{path}: federation.{member} must name one of the params"));
        }
    }
    if !federation["reads"].is_boolean() {
        return Err(format!("{path}: federation.reads must say whether the method changes anything"));
    }
    Ok(())
}

fn check_names(path: &str, doc: &Value, errors: &Value) -> Result<(), String> {
    let names = doc["errors"].as_array().ok_or(format!("{path}: errors must be a list of names"))?;
    for (at, name) in names.iter().enumerate() {
        let known = name.as_str().is_some_and(|name| errors.get(name).is_some());
        if !known {
            return Err(format!("{path}: {name} is not in errors.json"));
        }
        if names[..at].contains(name) {
            return Err(format!("{path}: {name} is listed twice in errors"));
        }
    }
    Ok(())
}

fn check_examples(path: &str, doc: &Value) -> Result<(), String> {
    let examples = doc["examples"].as_array().filter(|examples| !examples.is_empty());
    for example in examples.ok_or(format!("{path}: a method needs at least one example"))? {
        if !is_text(&example["name"]) || !example["params"].is_object() {
            return Err(format!("{path}: every example needs a name and params"));
        }
        let (result, error) = (example.get("result"), example.get("error"));
        if !is_notification(doc) && result.is_some() == error.is_some() {
            return Err(format!("{path}: example {} needs either a result or an error", example["name"]));
        }
        let listed = doc["errors"].as_array().zip(error).is_none_or(|(names, error)| names.contains(error));
        if !listed {
            return Err(format!("{path}: the error of example {} must be listed in errors", example["name"]));
        }
    }
    Ok(())
}

fn check_event(SchemaFile { path, doc }: &SchemaFile) -> Result<(), String> {
    let name = doc["event"].as_str().ok_or(format!("{path}: the file must name its event"))?;
    if *path != format!("events/{}.json", name.trim_start_matches("event/")) {
        return Err(format!(
            "{path}: the path of an event must be its name without event/, and the file names {name}"
        ));
    }
    if !is_text(&doc["summary"]) || !is_text(&doc["description"]) {
        return Err(format!("{path}: an event needs a summary and a description"));
    }
    if doc["params"]["type"] != "object" || !doc["example"].is_object() {
        return Err(format!("{path}: an event needs a params schema of type object and an example"));
    }
    Ok(())
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn is_sentence(text: &str) -> bool {
    text.starts_with(|first: char| first.is_lowercase()) && !text.ends_with('.')
}

fn is_notification(doc: &Value) -> bool {
    doc["notification"] == true
}

/// The Rust name of a word in a closed set, `Public` for `"access": "public"`.
fn variant(doc: &Value, field: &str) -> Option<&'static str> {
    Some(match (field, doc[field].as_str()?) {
        ("access", "public") => "Public",
        ("access", "session") => "Session",
        ("access", "internal") => "Internal",
        ("access", "peer") => "Peer",
        ("rate", "register") => "Register",
        ("rate", "login") => "Login",
        ("rate", "call") => "Call",
        ("rate", "ping") => "Ping",
        _ => return None,
    })
}

// ---- Writing ----

fn codes_source(errors: &Value) -> String {
    let mut source = String::new();
    for (name, row) in entries(errors) {
        let (code, message, retryable) = (&row["code"], &row["message"], &row["retryable"]);
        let description = row["description"].as_str().unwrap_or_default();
        line(&mut source, format_args!("/// {code}: {description}"));
        line(&mut source, format_args!("pub const {name}: Code = Code {{"));
        line(
            &mut source,
            format_args!("    name: {name:?}, code: {code}, message: {message}, retryable: {retryable},"),
        );
        line(&mut source, format_args!("}};"));
    }
    let names: Vec<_> = entries(errors).into_keys().collect();
    line(&mut source, format_args!("/// Every code there is, by name."));
    line(&mut source, format_args!("pub const ALL: &[Code] = &[{}];", names.join(", ")));
    source
}

fn tables_source(methods: &[SchemaFile], events: &[SchemaFile], common: &[SchemaFile]) -> String {
    let mut source = String::new();
    line(&mut source, format_args!("static METHODS: [Method; {}] = [", methods.len()));
    for SchemaFile { path, doc } in methods {
        let (access, rate) =
            (variant(doc, "access").unwrap_or_default(), variant(doc, "rate").unwrap_or_default());
        let (name, notification, federation) = (&doc["method"], is_notification(doc), federation(doc));
        line(
            &mut source,
            format_args!("    Method {{ name: {name}, access: Access::{access}, rate: Rate::{rate},"),
        );
        line(&mut source, format_args!("        notification: {notification}, federation: {federation},"));
        line(&mut source, format_args!("        doc: {} }},", parsed(path)));
    }
    line(&mut source, format_args!("];\nstatic EVENTS: [EventSchema; {}] = [", events.len()));
    for SchemaFile { path, doc } in events {
        line(
            &mut source,
            format_args!("    EventSchema {{ name: {}, doc: {} }},", doc["event"], parsed(path)),
        );
    }
    line(&mut source, format_args!("];\nstatic COMMON: [(&str, &str); {}] = [", common.len()));
    for SchemaFile { path, .. } in common {
        line(&mut source, format_args!("    ({:?}, {}),", type_name(path), text(path)));
    }
    line(&mut source, format_args!("];"));
    source
}

fn federation(doc: &Value) -> String {
    let Some(federation) = doc.get("federation") else { return "None".to_owned() };
    let name = |member: &str| federation.get(member).and_then(Value::as_str);
    let (by, again, reads) = (name("by"), name("again"), &federation["reads"]);
    format!("Some(FederationRule {{ by: {by:?}, again: {again:?}, reads: {reads} }})")
}

fn line(source: &mut String, text: fmt::Arguments) {
    writeln!(source, "{text}").expect("writing to a string does not fail");
}

fn text(path: &str) -> String {
    format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?}))", format!("/{path}"))
}

fn parsed(path: &str) -> String {
    format!("{{ static DOC: LazyLock<Value> = LazyLock::new(|| parse({})); &DOC }}", text(path))
}

/// `common/device_id.json` is referred to as `#/components/schemas/DeviceId`.
fn type_name(path: &str) -> String {
    let stem = path.trim_start_matches("common/").trim_end_matches(".json");
    let mut name = String::new();
    for word in stem.split('_') {
        let (first, rest) = word.split_at(1.min(word.len()));
        name.push_str(&first.to_uppercase());
        name.push_str(rest);
    }
    name
}

fn entries(object: &Value) -> BTreeMap<String, &Value> {
    object.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value)).collect()
}

#[expect(clippy::disallowed_methods, reason = "this is how cargo tells a build script where to write")]
fn save(name: &str, source: &str) -> Result<(), String> {
    let folder = std::env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?;
    let path = PathBuf::from(folder).join(name);
    fs::write(&path, source).map_err(|error| format!("{}: {error}", path.display()))
}

// ---- JSON in which no key is given twice ----

/// Any JSON value; an object that repeats a key is refused, where `Value` would keep the last one and say nothing.
struct NoDuplicateKeys(Value);

impl<'de> Deserialize<'de> for NoDuplicateKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NoDuplicateKeysVisitor).map(NoDuplicateKeys)
    }
}

struct NoDuplicateKeysVisitor;

impl<'de> Visitor<'de> for NoDuplicateKeysVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(NoDuplicateKeys(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some((name, NoDuplicateKeys(value))) = fields.next_entry::<String, _>()? {
            if object.insert(name.clone(), value).is_some() {
                return Err(de::Error::custom(format!("{name} is given twice")));
            }
        }
        Ok(object.into())
    }
}
