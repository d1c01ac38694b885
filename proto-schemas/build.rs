//! Reads every schema file once, refuses what is malformed, and writes the tables that `src/lib.rs` includes.
//!
//! What this script has let through is well-formed, so nothing in the crate can fail to parse later.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, process};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The folders that are no namespaces; every other folder has a `namespace.json`.
const NOT_NAMESPACES: [&str; 7] = ["ag-ui", "common", "envelopes", "manifest", "src", "tests", "target"];

#[path = "src/envelope.rs"]
#[expect(dead_code, reason = "an envelope is only read here: what it says is used by the crate")]
mod envelope;

include!("src/body_limit.rs");

use envelope::HttpEnvelope;

/// What an HTTP request may carry where its route does not say how much.
const BODY_BYTES: u64 = 64 << 10;
/// The envelope of paths that name no other.
const PLAIN: &str = "plain";

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
    let Namespaces { namespaces, methods, events, errors: of_namespaces } = namespaces(root)?;
    let errors = ErrorTables::new(read(root, "errors.json")?, of_namespaces, &namespaces)?;
    let common = folder(root, "common")?;
    let envelopes = folder(root, "envelopes")?;
    envelopes.iter().try_for_each(check_envelope)?;

    for namespace in &namespaces {
        check_namespace(namespace, &namespaces)?;
        check_envelope_names(namespace, &envelopes)?;
        check_tokens(namespace, &methods)?;
    }
    check_routes_differ(&methods)?;
    for method in &methods {
        check_method(method, &errors.seen_by(method, &namespaces))?;
        check_callers(method, &namespaces)?;
        check_classes(method, &namespaces)?;
        check_routes(method, &namespaces)?;
        check_stores(method)?;
    }
    for event in &events {
        check_event(event)?;
    }
    watch(root, "errors.json");
    watch(root, "build.rs");

    save("codes.rs", &codes_source(&errors))?;
    save("modules.rs", &modules_source(&namespaces))?;
    save("requests.rs", &requests_source(&methods))?;
    save(
        "tables.rs",
        &(tables_source(&namespaces, &methods, &events, &common, &errors) + &envelopes_source(&envelopes)),
    )
}

// ---- Reading ----

/// All namespaces, sorted as `src/lib.rs` needs them.
struct Namespaces {
    namespaces: Vec<SchemaFile>,
    methods: Vec<SchemaFile>,
    events: Vec<SchemaFile>,
    /// The errors that a namespace adds to those of the protocol.
    errors: Vec<SchemaFile>,
}

fn namespaces(root: &Path) -> Result<Namespaces, String> {
    // The root itself is watched, so that a new namespace is noticed.
    watch(root, "");
    let (mut namespaces, mut methods, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for name in names(root)? {
        if !root.join(&name).is_dir() || name.starts_with('.') || NOT_NAMESPACES.contains(&name.as_str()) {
            continue;
        }
        let own = format!("{name}/namespace.json");
        if !root.join(&own).exists() {
            return Err(format!("{own} is missing: it says which service serves the namespace"));
        }
        for file in folder(root, &name)? {
            match file.path.strip_prefix(&format!("{name}/")) {
                Some("namespace.json") => namespaces.push(file),
                Some("errors.json") => errors.push(file),
                Some(path) if path.starts_with("events/") => events.push(file),
                _ => methods.push(file),
            }
        }
    }
    // The tags of the gateway come first in every list of tags, and then those of the namespaces in alphabetical order.
    namespaces.sort_by_key(|file| (file.doc["namespace"] != "gateway", file.path.clone()));
    // `find` and `find_event` are binary searches, and paths sort differently from names.
    methods.sort_by(|a, b| a.doc["method"].as_str().cmp(&b.doc["method"].as_str()));
    events.sort_by(|a, b| a.doc["event"].as_str().cmp(&b.doc["event"].as_str()));
    Ok(Namespaces { namespaces, methods, events, errors })
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

/// The table of the protocol, and those of the namespaces.
struct ErrorTables {
    protocol: Value,
    of_namespaces: Vec<NamespaceErrors>,
}

struct NamespaceErrors {
    namespace: String,
    service: Value,
    rows: Value,
}

impl ErrorTables {
    /// A method answers the errors of the protocol and those of its service, so a name is given once among them.
    fn new(
        protocol: SchemaFile,
        tables: Vec<SchemaFile>,
        namespaces: &[SchemaFile],
    ) -> Result<ErrorTables, String> {
        check_errors(&protocol.path, &protocol.doc)?;
        let mut all = ErrorTables { protocol: protocol.doc, of_namespaces: Vec::new() };
        for SchemaFile { path, doc: rows } in tables {
            check_errors(&path, &rows)?;
            let namespace = path.split('/').next().unwrap_or_default().to_owned();
            let own = namespaces.iter().find(|file| file.doc["namespace"] == namespace.as_str());
            let service = own.map_or(Value::Null, |file| file.doc["service"].clone());
            all.check_statuses(&path, &rows)?;
            let others = all.of_service(&service);
            if let Some(name) = entries(&rows).into_keys().find(|name| others.contains_key(name)) {
                return Err(format!("{path}: {name} is in another table of errors already"));
            }
            all.of_namespaces.push(NamespaceErrors { namespace, service, rows });
        }
        Ok(all)
    }

    /// Where only the name of an error is known, its status is known, too.
    fn check_statuses(&self, path: &str, rows: &Value) -> Result<(), String> {
        let before = self.of_namespaces.iter().flat_map(|table| entries(&table.rows));
        for (name, row) in before {
            if rows.get(&name).is_some_and(|other| other["http"] != row["http"]) {
                return Err(format!("{path}: {name} has another HTTP status in another table"));
            }
        }
        Ok(())
    }

    fn of_service(&self, service: &Value) -> BTreeMap<String, &Value> {
        let own = self.of_namespaces.iter().filter(|table| table.service == *service);
        own.flat_map(|table| entries(&table.rows)).chain(entries(&self.protocol)).collect()
    }

    /// The path of the constant of an error that the methods of a namespace answer.
    fn constant(&self, name: &str, namespace: Option<&SchemaFile>) -> String {
        let service = namespace.map_or(&Value::Null, |namespace| &namespace.doc["service"]);
        let mut own = self.of_namespaces.iter().filter(|table| table.service == *service);
        match own.find(|table| table.rows.get(name).is_some()) {
            Some(table) => format!("codes::{}::{name}", table.namespace),
            None => format!("codes::{name}"),
        }
    }

    fn seen_by(&self, method: &SchemaFile, namespaces: &[SchemaFile]) -> BTreeMap<String, &Value> {
        let own = namespace_of(&method.doc, namespaces);
        self.of_service(own.map_or(&Value::Null, |namespace| &namespace.doc["service"]))
    }
}

fn check_errors(path: &str, errors: &Value) -> Result<(), String> {
    for (name, row) in entries(errors) {
        members(path, row, &["code", "http", "retryable", "message", "description", "reserved"])?;
        let code = row["code"].as_i64().and_then(|code| i32::try_from(code).ok());
        if code.is_none() || !row["retryable"].is_boolean() || !is_text(&row["description"]) {
            return Err(format!(
                "{path}: {name} needs an integer code, a boolean retryable and a description"
            ));
        }
        if !row["http"].as_u64().is_some_and(|status| (200..600).contains(&status)) {
            return Err(format!("{path}: {name} needs the HTTP status that it has"));
        }
        if !row["message"].as_str().is_some_and(is_sentence) {
            return Err(format!(
                "{path}: the message of {name} must be a lower-case sentence without a full stop"
            ));
        }
        if !name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
            return Err(format!("{path}: {name} must be written in capitals and underscores"));
        }
    }
    Ok(())
}

fn check_namespace(SchemaFile { path, doc }: &SchemaFile, all: &[SchemaFile]) -> Result<(), String> {
    let name = doc["namespace"].as_str().ok_or(format!("{path}: the file must name its namespace"))?;
    if *path != format!("{name}/namespace.json") {
        return Err(format!(
            "{path}: the folder of a namespace must have its name, and the file names {name}"
        ));
    }
    members(
        path,
        doc,
        &[
            "namespace",
            "service",
            "summary",
            "tags",
            "sessions",
            "session_features",
            "rates",
            "tokens",
            "http",
            "operations",
        ],
    )?;
    if !is_text(&doc["service"]) || !is_text(&doc["summary"]) {
        return Err(format!("{path}: a namespace needs a service and a summary"));
    }
    if doc.get("sessions").is_some_and(|sessions| !sessions.is_boolean()) {
        return Err(format!("{path}: sessions must be true or false"));
    }
    for tag in list(&doc["tags"]) {
        members(path, tag, &["tag", "since", "modes", "needs"])?;
        if !is_text(&tag["tag"]) || !is_text(&tag["since"]) {
            return Err(format!("{path}: a tag needs a name and the protocol version that brought it"));
        }
        if all_tags(all).filter(|other| other["tag"] == tag["tag"]).count() != 1 {
            return Err(format!("{path}: tag {} is listed twice", tag["tag"]));
        }
    }
    for (class, rate) in entries(&doc["rates"]) {
        members(path, rate, &["by", "per_minute", "burst"])?;
        if rate_key(rate).is_none() || !is_rate(&rate["per_minute"]) {
            return Err(format!(
                "{path}: rate class {class} needs per_minute, and by, which is agent, address or address_and_aid"
            ));
        }
        if rate.get("burst").is_some_and(|burst| !is_rate(burst)) {
            return Err(format!("{path}: the burst of rate class {class} must be at least 1"));
        }
    }
    for route in list(&doc["http"]) {
        check_http(path, route, doc, all)?;
    }
    Ok(())
}

fn check_http(path: &str, route: &Value, namespace: &Value, all: &[SchemaFile]) -> Result<(), String> {
    members(
        path,
        route,
        &[
            "host",
            "path",
            "exact",
            "tag",
            "access",
            "tokens",
            "rate",
            "body_bytes",
            "streams",
            "stores",
            "cors",
            "envelope",
        ],
    )?;
    if !route["path"].as_str().is_some_and(|path| path.starts_with('/')) {
        return Err(format!("{path}: the path of an HTTP route must begin with /"));
    }
    let at = &route["path"];
    if host(route).is_none() {
        return Err(format!("{path}: the host of {at} must be any, gateway, agent or pki"));
    }
    check_access(path, at.as_str().unwrap_or_default(), route, all)?;
    if route.get("tag").is_some_and(|tag| !all_tags(all).any(|known| known["tag"] == *tag)) {
        return Err(format!("{path}: the tag of {at} is not declared by any namespace"));
    }
    if route
        .get("rate")
        .is_some_and(|rate| namespace["rates"].get(rate.as_str().unwrap_or_default()).is_none())
    {
        return Err(format!("{path}: the rate of {at} must be a rate class of the namespace"));
    }
    Ok(())
}

/// Who may use a path or a route, and which tokens are accepted there.
fn check_access(path: &str, at: &str, route: &Value, all: &[SchemaFile]) -> Result<(), String> {
    if !matches!(route["access"].as_str(), None | Some("public" | "token")) {
        return Err(format!("{path}: the access of {at} must be public or token"));
    }
    let given = all.iter().flat_map(|namespace| list(&namespace.doc["tokens"]));
    let kinds: Vec<&Value> = given.map(|rule| &rule["kind"]).collect();
    match list(&route["tokens"]).iter().find(|kind| **kind != "access" && !kinds.contains(kind)) {
        Some(kind) => {
            Err(format!("{path}: no namespace declares tokens of the kind {kind}, which {at} accepts"))
        }
        None => Ok(()),
    }
}

/// A token is known by its prefix, and verified by a method that the gateway may call.
fn check_tokens(SchemaFile { path, doc }: &SchemaFile, methods: &[SchemaFile]) -> Result<(), String> {
    for rule in list(&doc["tokens"]) {
        members(path, rule, &["prefix", "kind", "verify", "per_second"])?;
        let kind = rule["kind"].as_str().unwrap_or_default();
        if !is_text(&rule["prefix"]) || kind.is_empty() || kind == "access" || !is_rate(&rule["per_second"]) {
            return Err(format!(
                "{path}: tokens need a prefix, a kind that is not access, the method that verifies them, and per_second"
            ));
        }
        let verify = methods.iter().find(|method| method.doc["method"] == rule["verify"]);
        let opened =
            |method: &&SchemaFile| list(&method.doc["callers"]).iter().any(|caller| caller == "gateway");
        if verify.filter(opened).is_none() {
            return Err(format!("{path}: {} must be a method that the gateway may call", rule["verify"]));
        }
    }
    Ok(())
}

fn check_envelope(file: &SchemaFile) -> Result<(), String> {
    let SchemaFile { path, doc } = file;
    let envelope = HttpEnvelope::parse(&doc.to_string()).map_err(|error| format!("{path}: {error}"))?;
    match *path == format!("envelopes/{}.json", envelope.name) {
        true => Ok(()),
        false => Err(format!("{path}: the file of an envelope must have its name")),
    }
}

fn check_envelope_names(
    SchemaFile { path, doc }: &SchemaFile,
    envelopes: &[SchemaFile],
) -> Result<(), String> {
    for route in list(&doc["http"]) {
        let name = route["envelope"].as_str().unwrap_or(PLAIN);
        if !envelopes.iter().any(|envelope| envelope.doc["envelope"] == name) {
            return Err(format!("{path}: there is no envelope {name:?} in proto-schemas/envelopes"));
        }
    }
    Ok(())
}

/// One path has one method of a service for each method of HTTP.
fn check_routes_differ(methods: &[SchemaFile]) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for SchemaFile { path, doc } in methods {
        for route in list(&doc["http"]) {
            let at = format!("{} {}", route["method"], route["path"]);
            if let Some(other) = seen.insert(at.clone(), path) {
                return Err(format!("{path}: {at} is a route of {other} already"));
            }
        }
    }
    Ok(())
}

/// The routes of a method are below a path of its service, and every parameter in them is one of the method.
fn check_routes(SchemaFile { path, doc }: &SchemaFile, namespaces: &[SchemaFile]) -> Result<(), String> {
    let Some(routes) = doc.get("http") else { return Ok(()) };
    let service = namespace_of(doc, namespaces).map(|namespace| &namespace.doc["service"]);
    let own = namespaces.iter().filter(|namespace| Some(&namespace.doc["service"]) == service);
    let prefixes: Vec<&Value> = own.flat_map(|namespace| list(&namespace.doc["http"])).collect();
    for route in routes.as_array().ok_or(format!("{path}: http must be a list of routes"))? {
        members(
            path,
            route,
            &[
                "method",
                "path",
                "access",
                "tokens",
                "public_rate",
                "cors",
                "query",
                "headers",
                "body",
                "body_bytes",
                "result",
                "status",
                "etag",
                "nulls",
                "cache",
                "stream",
                "answer",
            ],
        )?;
        if !matches!(route["method"].as_str(), Some("GET" | "POST" | "PUT" | "PATCH" | "DELETE")) {
            return Err(format!(
                "{path}: the method of an HTTP route must be GET, POST, PUT, PATCH or DELETE"
            ));
        }
        let at = route["path"].as_str().unwrap_or_default();
        let below = |prefix: &&Value| {
            let prefix = prefix["path"].as_str().unwrap_or("/");
            at == prefix || prefix.ends_with('/') && at.starts_with(prefix)
        };
        if !prefixes.iter().any(below) {
            return Err(format!("{path}: {at} is not below an HTTP path of the service"));
        }
        let in_path = at.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let in_headers =
            entries(&route["headers"]).into_values().map(|name| name.as_str().unwrap_or_default());
        let in_query = list(&route["query"]).iter().map(|name| name.as_str().unwrap_or_default());
        let named = in_path.chain(in_query).chain(in_headers).chain(route["body"].as_str());
        for name in named {
            if doc["params"]["properties"].get(name).is_none() {
                return Err(format!("{path}: {name:?} in the HTTP route {at} must be one of the params"));
            }
        }
        if !matches!(&route["body"], Value::Null | Value::String(_) | Value::Bool(true)) {
            return Err(format!(
                "{path}: the body of {at} must be one of the params, or true for all of them"
            ));
        }
        check_access(path, at, route, namespaces)?;
        check_public_rate(path, at, route, namespace_of(doc, namespaces))?;
        let named = route.get("access").is_some() || route.get("tokens").is_some();
        if doc["access"] == "internal" && !named {
            return Err(format!(
                "{path}: {at} opens an internal method, so it must say to whom: access or tokens"
            ));
        }
        check_answer(path, at, route, doc)?;
    }
    Ok(())
}

/// Requests without a token are counted by their address, and only a public route has them.
fn check_public_rate(
    path: &str,
    at: &str,
    route: &Value,
    namespace: Option<&SchemaFile>,
) -> Result<(), String> {
    let Some(class) = route.get("public_rate") else { return Ok(()) };
    let classes = namespace.map_or(&Value::Null, |namespace| &namespace.doc["rates"]);
    let class = class.as_str().and_then(|class| classes.get(class));
    match route["access"] == "public" && class.is_some_and(|class| class["by"] == "address") {
        true => Ok(()),
        false => Err(format!(
            "{path}: public_rate of {at} must be a rate class of its namespace.json by address, and the access of {at} public"
        )),
    }
}

/// How a route is answered, and that its body fits between two processes.
fn check_answer(path: &str, at: &str, route: &Value, doc: &Value) -> Result<(), String> {
    let results = &doc["result"]["properties"];
    let by_member = route["status"]["member"].as_str();
    let nulls = list(&route["nulls"]).iter().filter_map(Value::as_str);
    for name in route["result"].as_str().into_iter().chain(by_member).chain(nulls) {
        if results.get(name).is_none() {
            return Err(format!("{path}: {name:?} in the HTTP route {at} must be a member of the result"));
        }
    }
    let is_status = |status: &Value| status.as_u64().is_some_and(|status| (200..300).contains(&status));
    let status = &route["status"];
    let known = match status {
        Value::Null => true,
        Value::Object(_) => is_status(&status["true"]) && is_status(&status["false"]) && by_member.is_some(),
        status => is_status(status),
    };
    if !known {
        return Err(format!(
            "{path}: the status of {at} must be one of success, or {{member, true, false}} with two of them"
        ));
    }
    match route
        .get("body_bytes")
        .is_some_and(|bytes| bytes.as_u64().is_none_or(|n| n > MOST_BODY_BYTES as u64))
    {
        true => Err(format!("{path}: body_bytes of {at} must be at most {MOST_BODY_BYTES}")),
        false => Ok(()),
    }
}

/// An internal method says which services may call it, and no other method does: a forgotten list must not open it to all. For every
/// service but the gateway it says `["*"]`.
fn check_callers(SchemaFile { path, doc }: &SchemaFile, namespaces: &[SchemaFile]) -> Result<(), String> {
    let internal = doc["access"] == "internal";
    let callers = match doc.get("callers") {
        None if internal => {
            return Err(format!(
                "{path}: callers must list the services that may call an internal method, [] for none but the operator"
            ));
        }
        None => return Ok(()),
        Some(_) if !internal => {
            return Err(format!(
                "{path}: callers is for internal methods; access says who may call the others"
            ));
        }
        Some(callers) => callers.as_array().ok_or(format!("{path}: callers must be a list of services"))?,
    };
    if is_for_every_service(doc) {
        return Ok(());
    }
    for (at, caller) in callers.iter().enumerate() {
        if !namespaces.iter().any(|namespace| namespace.doc["service"] == *caller) {
            return Err(format!("{path}: {caller} in callers is not a service of any namespace"));
        }
        if callers[..at].contains(caller) {
            return Err(format!("{path}: {caller} is listed twice in callers"));
        }
    }
    Ok(())
}

fn is_for_every_service(method: &Value) -> bool {
    list(&method["callers"]) == [Value::from("*")]
}

/// The services that may call a method of this file, each in quotes.
fn callers_of(method: &Value, own: Option<&SchemaFile>, namespaces: &[SchemaFile]) -> Vec<String> {
    if !is_for_every_service(method) {
        return list(&method["callers"]).iter().map(Value::to_string).collect();
    }
    let services = namespaces.iter().map(|namespace| &namespace.doc["service"]);
    let is_own = |service: &Value| own.is_some_and(|own| own.doc["service"] == *service);
    let others = services.filter(|service| **service != "gateway" && !is_own(service));
    let mut callers: Vec<String> = others.map(Value::to_string).collect();
    callers.sort();
    callers.dedup();
    callers
}

/// The tag and the rate class of a method are declared.
fn check_classes(SchemaFile { path, doc }: &SchemaFile, namespaces: &[SchemaFile]) -> Result<(), String> {
    let namespace =
        namespace_of(doc, namespaces).ok_or(format!("{path}: its namespace has no namespace.json"))?;
    if doc.get("tag").is_some_and(|tag| !all_tags(namespaces).any(|known| known["tag"] == *tag)) {
        return Err(format!("{path}: tag {} is not declared by any namespace", doc["tag"]));
    }
    let rate = doc["rate"].as_str().unwrap_or_default();
    if rate != "call" && namespace.doc["rates"].get(rate).is_none() {
        return Err(format!("{path}: rate must be call, or a rate class of its namespace.json"));
    }
    Ok(())
}

/// A method that agents or other domains may call says whether it stores new bytes, unless it is known to read: a forgotten word must not
/// let a disk fill up.
fn check_stores(SchemaFile { path, doc }: &SchemaFile) -> Result<(), String> {
    let is_known = match doc.get("stores") {
        None => !is_open(doc) || only_reads(doc),
        Some(Value::Bool(_)) => true,
        Some(param) => param.as_str().is_some_and(|name| doc["params"]["properties"].get(name).is_some()),
    };
    match is_known {
        true => Ok(()),
        false => Err(format!(
            "{path}: stores must say whether a call stores new bytes: true, false, or the param with which it does"
        )),
    }
}

/// Whether a call can come from outside. What another domain relays is a call of the method that it carries.
fn is_open(doc: &Value) -> bool {
    doc["access"] == "public"
        || doc["access"] == "session"
        || doc.get("federation").is_some()
        || doc.get("http").is_some()
}

fn only_reads(doc: &Value) -> bool {
    let routes = list(&doc["http"]);
    doc["federation"]["reads"] == true
        || !routes.is_empty() && routes.iter().all(|route| route["method"] == "GET")
}

/// Refuses a member that means nothing, such as a misspelt one.
fn members(path: &str, object: &Value, known: &[&str]) -> Result<(), String> {
    match entries(object).into_keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("{path}: unknown member {name}; the members are {}", known.join(", "))),
        None => Ok(()),
    }
}

fn check_method(
    SchemaFile { path, doc }: &SchemaFile,
    errors: &BTreeMap<String, &Value>,
) -> Result<(), String> {
    let name = doc["method"].as_str().ok_or(format!("{path}: the file must name its method"))?;
    if *path != format!("{}.json", name.replace('.', "/")) {
        return Err(format!("{path}: the path of a method must be its name, and the file names {name}"));
    }
    if variant(doc, "access").is_none() {
        return Err(format!("{path}: access must be public, session, internal or peer"));
    }
    let connection = &doc["connection"];
    if !connection.is_null() && !connection.is_boolean() && connection != "webhook" {
        return Err(format!("{path}: connection must be true, false or webhook"));
    }
    if doc.get("repeatable").is_some_and(|repeatable| !repeatable.is_boolean()) {
        return Err(format!("{path}: repeatable must say whether the same call again changes nothing"));
    }
    if doc.get("invalid_params").is_some_and(|name| !list(&doc["errors"]).contains(name)) {
        return Err(format!("{path}: invalid_params must be listed in errors"));
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
    let callers = list(&federation["callers"]);
    if callers.is_empty() || callers.iter().any(|caller| *caller != "aid" && *caller != "service") {
        return Err(format!("{path}: federation.callers must list who may relay it: aid, service or both"));
    }
    if !federation["reads"].is_boolean() {
        return Err(format!("{path}: federation.reads must say whether the method changes anything"));
    }
    Ok(())
}

fn check_names(path: &str, doc: &Value, errors: &BTreeMap<String, &Value>) -> Result<(), String> {
    let names = doc["errors"].as_array().ok_or(format!("{path}: errors must be a list of names"))?;
    for (at, name) in names.iter().enumerate() {
        let known = name.as_str().is_some_and(|name| errors.contains_key(name));
        if !known {
            return Err(format!("{path}: {name} is not in a table of errors"));
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
    if path.rsplit('/').next() != Some(&format!("{}.json", name.trim_start_matches("event/"))) {
        return Err(format!(
            "{path}: the file name of an event must be its name without event/, and the file names {name}"
        ));
    }
    if !is_text(&doc["summary"]) || !is_text(&doc["description"]) {
        return Err(format!("{path}: an event needs a summary and a description"));
    }
    if doc["params"]["type"] != "object" || !doc["example"].is_object() {
        return Err(format!("{path}: an event needs a params schema of type object and an example"));
    }
    if variant(doc, "audience").is_none() {
        return Err(format!("{path}: audience must be connection, device or agent"));
    }
    if let Some(order) = doc.get("order") {
        members(path, order, &["series", "key", "number", "dense", "repeatable", "shared"])?;
        let key = list(&order["key"]);
        if !is_text(&order["series"]) || !is_text(&order["number"]) || !order["dense"].is_boolean() {
            return Err(format!("{path}: order needs series, key, number and dense"));
        }
        if key.is_empty() || !key.iter().all(is_text) {
            return Err(format!("{path}: order.key must list members of params"));
        }
    }
    if let Some(federation) = doc.get("federation") {
        members(path, federation, &["about", "owner_only"])?;
        let about = federation["about"].as_str();
        if about.is_none_or(|about| doc["params"]["properties"].get(about).is_none()) {
            return Err(format!(
                "{path}: federation.about must name the member of params with the agent the event is about"
            ));
        }
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
        ("audience", "connection") => "Connection",
        ("audience", "device") => "Device",
        ("audience", "agent") => "Agent",
        _ => return None,
    })
}

fn host(route: &Value) -> Option<&'static str> {
    Some(match route["host"].as_str()? {
        "any" => "Any",
        "gateway" => "Gateway",
        "agent" => "Agent",
        "pki" => "Pki",
        _ => return None,
    })
}

fn rate_key(rate: &Value) -> Option<&'static str> {
    Some(match rate["by"].as_str()? {
        "agent" => "Agent",
        "address" => "Address",
        "address_and_aid" => "AddressAndAid",
        _ => return None,
    })
}

fn is_rate(value: &Value) -> bool {
    value.as_u64().is_some_and(|rate| (1..=u64::from(u32::MAX)).contains(&rate))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn all_tags(namespaces: &[SchemaFile]) -> impl Iterator<Item = &Value> {
    namespaces.iter().flat_map(|namespace| list(&namespace.doc["tags"]))
}

/// `message` for `message.send`, `notification` for `notification/route`.
fn namespace_of<'a>(method: &Value, namespaces: &'a [SchemaFile]) -> Option<&'a SchemaFile> {
    let name = method["method"].as_str()?.split(['.', '/']).next()?;
    namespaces.iter().find(|namespace| namespace.doc["namespace"] == name)
}

// ---- Writing ----

fn codes_source(errors: &ErrorTables) -> String {
    let mut source = String::new();
    let mut all = codes_of(&mut source, "None", &errors.protocol, "");
    for NamespaceErrors { namespace, rows, .. } in &errors.of_namespaces {
        line(
            &mut source,
            format_args!("/// The errors of `{namespace}`.\npub mod {namespace} {{\nuse super::Code;"),
        );
        let of = format!("Some({namespace:?})");
        all.extend(codes_of(&mut source, &of, rows, &format!("{namespace}::")));
        line(&mut source, format_args!("}}"));
    }
    line(&mut source, format_args!("/// Every code there is."));
    line(&mut source, format_args!("pub const ALL: &[Code] = &[{}];", all.join(", ")));
    source
}

/// A constant for each row; gives their paths.
fn codes_of(source: &mut String, namespace: &str, rows: &Value, module: &str) -> Vec<String> {
    for (name, row) in entries(rows) {
        let (code, http, message, retryable) =
            (&row["code"], &row["http"], &row["message"], &row["retryable"]);
        let reserved = row["reserved"] == true;
        let description = row["description"].as_str().unwrap_or_default();
        line(source, format_args!("/// {code}: {description}"));
        line(source, format_args!("pub const {name}: Code = Code {{"));
        line(source, format_args!("    namespace: {namespace}, name: {name:?}, code: {code}, http: {http},"));
        line(source, format_args!("    message: {message}, retryable: {retryable}, reserved: {reserved},"));
        line(source, format_args!("}};"));
    }
    entries(rows).into_keys().map(|name| format!("{module}{name}")).collect()
}

/// The modules of request types: every namespace has one in `src/requests`, a file or a folder of its name.
fn modules_source(namespaces: &[SchemaFile]) -> String {
    let mut source = String::from("macro_rules! namespace_modules {\n    () => {\n");
    for SchemaFile { doc, .. } in namespaces {
        let name = doc["namespace"].as_str().unwrap_or_default();
        line(&mut source, format_args!("        pub mod {name};"));
    }
    source.push_str("    };\n}\n");
    source
}

/// A list for the tests: the request type of every method that is answered, as `requests::ca::GetCert` for `ca.get_cert`.
fn requests_source(methods: &[SchemaFile]) -> String {
    let mut source = String::from("macro_rules! all_requests {\n    ($then:ident, $check:ident) => {\n");
    line(&mut source, format_args!("        $then!($check:"));
    for SchemaFile { doc, .. } in methods.iter().filter(|method| !is_notification(&method.doc)) {
        let name = doc["method"].as_str().unwrap_or_default();
        let (modules, verb) = name.rsplit_once('.').unwrap_or_default();
        let (modules, verb) = (modules.replace('.', "::"), type_name(verb));
        line(&mut source, format_args!("            proto_schemas::requests::{modules}::{verb},"));
    }
    source.push_str("        )\n    };\n}\n");
    source
}

fn tables_source(
    namespaces: &[SchemaFile],
    methods: &[SchemaFile],
    events: &[SchemaFile],
    common: &[SchemaFile],
    errors: &ErrorTables,
) -> String {
    let mut source = String::new();
    for (at, file) in namespaces.iter().enumerate() {
        // Of their own, because namespaces, methods and routes refer to them.
        let tags: String = list(&file.doc["tags"]).iter().map(tag_source).collect();
        line(
            &mut source,
            format_args!("static TAGS_{at}: [Tag; {}] = [{tags}];", list(&file.doc["tags"]).len()),
        );
        let classes = entries(&file.doc["rates"]);
        let rates: String = classes.iter().map(|(class, rate)| rate_source(&file.doc, class, rate)).collect();
        line(&mut source, format_args!("static RATES_{at}: [RateClass; {}] = [{rates}];", classes.len()));
    }
    line(&mut source, format_args!("static NAMESPACES: [Namespace; {}] = [", namespaces.len()));
    for (at, file) in namespaces.iter().enumerate() {
        line(&mut source, format_args!("    {},", namespace_source(file, at, namespaces)));
    }
    line(&mut source, format_args!("];\nstatic METHODS: [Method; {}] = [", methods.len()));
    for (position, file) in methods.iter().enumerate() {
        line(&mut source, format_args!("    {},", method_source(file, position, namespaces, errors)));
    }
    line(&mut source, format_args!("];\nstatic EVENTS: [EventSchema; {}] = [", events.len()));
    for file in events {
        line(&mut source, format_args!("    {},", event_source(file)));
    }
    line(&mut source, format_args!("];\nstatic COMMON: [(&str, &str); {}] = [", common.len()));
    for SchemaFile { path, .. } in common {
        line(&mut source, format_args!("    ({:?}, {}),", type_name(path), text(path)));
    }
    line(&mut source, format_args!("];"));
    source
}

fn namespace_source(SchemaFile { path, doc }: &SchemaFile, at: usize, all: &[SchemaFile]) -> String {
    let (name, service) = (&doc["namespace"], &doc["service"]);
    let sessions = doc["sessions"] == true;
    let features: String = list(&doc["session_features"]).iter().map(|name| format!("{name}, ")).collect();
    let http: String = list(&doc["http"]).iter().map(|route| http_source(route, doc, all)).collect();
    let tokens: String = list(&doc["tokens"]).iter().map(token_source).collect();
    format!(
        "Namespace {{ name: {name}, service: {service}, sessions: {sessions}, session_features: &[{features}], tags: &TAGS_{at}, rates: &RATES_{at}, \
         tokens: &[{tokens}], http: &[{http}], doc: {} }}",
        parsed(path)
    )
}

fn token_source(rule: &Value) -> String {
    let (prefix, kind) = (&rule["prefix"], &rule["kind"]);
    let (verify, per_second) = (&rule["verify"], &rule["per_second"]);
    format!("TokenRule {{ prefix: {prefix}, kind: {kind}, verify: {verify}, per_second: {per_second} }}, ")
}

/// Each envelope is read when it is first used. They are public, so that one may exist before the namespace that names it.
fn envelopes_source(envelopes: &[SchemaFile]) -> String {
    let mut source = String::new();
    for SchemaFile { path, doc } in envelopes {
        let name = envelope_name(doc["envelope"].as_str().unwrap_or_default());
        line(
            &mut source,
            format_args!(
                "/// `{path}`.\npub static {name}: LazyLock<HttpEnvelope> = LazyLock::new(|| parse_envelope({}));",
                text(path)
            ),
        );
    }
    source
}

fn envelope_name(name: &str) -> String {
    format!("{}_ENVELOPE", name.to_uppercase())
}

fn tag_source(tag: &Value) -> String {
    let (name, since, modes, needs) = (&tag["tag"], &tag["since"], list(&tag["modes"]), list(&tag["needs"]));
    let text = |values: &[Value]| values.iter().map(|value| format!("{value}, ")).collect::<String>();
    format!("Tag {{ name: {name}, since: {since}, modes: &[{}], needs: &[{}] }}, ", text(modes), text(needs))
}

fn rate_source(namespace: &Value, class: &str, rate: &Value) -> String {
    let name = format!("{}.{class}", namespace["namespace"].as_str().unwrap_or_default());
    let (by, per_minute) = (rate_key(rate).unwrap_or_default(), &rate["per_minute"]);
    let burst = rate.get("burst").and_then(Value::as_u64);
    format!("RateClass {{ name: {name:?}, by: RateKey::{by}, per_minute: {per_minute}, burst: {burst:?} }}, ")
}

fn http_source(route: &Value, namespace: &Value, all: &[SchemaFile]) -> String {
    let path = route["path"].as_str().unwrap_or_default();
    let (host, tag) = (host(route).unwrap_or_default(), tag_reference(&route["tag"], all));
    let exact = route["exact"] == true || !path.ends_with('/');
    let access = access_source(route, route["access"] != "token");
    let envelope = envelope_name(route["envelope"].as_str().unwrap_or(PLAIN));
    let bytes = route["body_bytes"].as_u64().unwrap_or(BODY_BYTES);
    let (streams, cors) = (route["streams"] == true, route["cors"] != false);
    let stores = route["stores"] != false;
    let rate = class_reference(&route["rate"], namespace, all);
    format!(
        "HttpPrefix {{ host: HttpHost::{host}, path: {path:?}, exact: {exact}, tag: {tag}, access: {access}, \
         rate: {rate}, body_bytes: {bytes}, streams: {streams}, stores: {stores}, cors: {cors}, envelope: &{envelope} }}, "
    )
}

/// Where nothing else is said, access tokens are accepted.
fn access_source(route: &Value, public: bool) -> String {
    let listed: String = list(&route["tokens"]).iter().map(|kind| format!("{kind}, ")).collect();
    let tokens = if listed.is_empty() { "ACCESS_TOKEN".to_owned() } else { listed };
    format!("HttpAccess {{ public: {public}, tokens: &[{tokens}] }}")
}

fn route_source(route: &Value, doc: &Value, namespace: &Value, all: &[SchemaFile]) -> String {
    let (method, path) = (&route["method"], &route["path"]);
    let public = match route["access"].as_str() {
        Some(access) => access == "public",
        None => route.get("tokens").is_none() && doc["access"] == "public",
    };
    let access = access_source(route, public);
    let texts =
        |member: &str| list(&route[member]).iter().map(|name| format!("{name}, ")).collect::<String>();
    let (query, nulls) = (texts("query"), texts("nulls"));
    let headers: String = entries(&route["headers"])
        .into_iter()
        .map(|(header, name)| format!("({:?}, {name}), ", header.to_ascii_lowercase()))
        .collect();
    let body = match &route["body"] {
        Value::String(name) => format!("Text({name:?})"),
        Value::Bool(true) => "Params".to_owned(),
        _ => "None".to_owned(),
    };
    let status = match &route["status"] {
        Value::Object(status) => {
            let (member, yes, no) = (&status["member"], &status["true"], &status["false"]);
            format!("ByMember {{ member: {member}, yes: {yes}, no: {no} }}")
        }
        status => format!("Always({})", status.as_u64().unwrap_or(200)),
    };
    let (result, etag) = (route["result"].as_str(), route["etag"].as_str());
    let (bytes, stream) = (route["body_bytes"].as_u64(), route["stream"] == true);
    let (public_rate, cors) = (class_reference(&route["public_rate"], namespace, all), route["cors"] == true);
    let (cache, own_answer) = (route["cache"].as_str(), route.get("answer").is_some());
    format!(
        "HttpRoute {{ method: {method}, path: {path}, access: {access}, public_rate: {public_rate}, cors: {cors}, query: &[{query}], headers: &[{headers}], \
         body: HttpRouteBody::{body}, body_bytes: {bytes:?}, result: {result:?}, status: HttpRouteStatus::{status}, \
         etag: {etag:?}, nulls: &[{nulls}], cache: {cache:?}, stream: {stream}, own_answer: {own_answer} }}, "
    )
}

fn method_source(
    SchemaFile { path, doc }: &SchemaFile,
    position: usize,
    all: &[SchemaFile],
    errors: &ErrorTables,
) -> String {
    let (name, access) = (&doc["method"], variant(doc, "access").unwrap_or_default());
    let (notification, federation) = (is_notification(doc), federation(doc));
    let needs_connection = doc["connection"] == true;
    let new_bytes = match &doc["stores"] {
        Value::Bool(true) => "Always".to_owned(),
        Value::String(param) => format!("With({param:?})"),
        _ => "Never".to_owned(),
    };
    let repeatable = doc["repeatable"] == true || doc["federation"]["reads"] == true;
    let namespace = namespace_of(doc, all);
    let at =
        all.iter().position(|file| namespace.is_some_and(|own| own.path == file.path)).unwrap_or_default();
    let own_tag = namespace.map_or(&Value::Null, |namespace| &namespace.doc["tags"][0]["tag"]);
    let tag = tag_reference(doc.get("tag").unwrap_or(own_tag), all);
    let namespace_doc = namespace.map_or(&Value::Null, |own| &own.doc);
    let rate = class_reference(&doc["rate"], namespace_doc, all);
    let routes = list(&doc["http"]).iter();
    let http: String = routes.map(|route| route_source(route, doc, namespace_doc, all)).collect();
    let callers: String =
        callers_of(doc, namespace, all).iter().map(|service| format!("{service}, ")).collect();
    let invalid_params =
        errors.constant(doc["invalid_params"].as_str().unwrap_or("INVALID_PARAMS"), namespace);
    format!(
        "Method {{ name: {name}, position: {position}, namespace: &NAMESPACES[{at}], tag: {tag}, \
         access: Access::{access}, callers: &[{callers}], rate: {rate}, new_bytes: NewBytes::{new_bytes}, notification: {notification}, \
         needs_connection: {needs_connection}, repeatable: {repeatable}, invalid_params: {invalid_params}, http: &[{http}], \
         federation: {federation}, text: {}, doc: {} }}",
        text(path),
        parsed(path)
    )
}

/// `Some(&TAGS_2[0])`, where that tag is declared.
fn tag_reference(tag: &Value, all: &[SchemaFile]) -> String {
    for (namespace, file) in all.iter().enumerate() {
        if let Some(at) = list(&file.doc["tags"]).iter().position(|known| known["tag"] == *tag) {
            return format!("Some(&TAGS_{namespace}[{at}])");
        }
    }
    "None".to_owned()
}

fn class_reference(class: &Value, namespace: &Value, all: &[SchemaFile]) -> String {
    let at = entries(&namespace["rates"]).keys().position(|known| *class == known.as_str());
    let namespace = all.iter().position(|file| file.doc["namespace"] == namespace["namespace"]);
    match (namespace, at) {
        (Some(namespace), Some(at)) => format!("Some(&RATES_{namespace}[{at}])"),
        _ => "None".to_owned(),
    }
}

fn event_source(SchemaFile { path, doc }: &SchemaFile) -> String {
    let audience = variant(doc, "audience").unwrap_or_default();
    let order = doc.get("order").map_or("None".to_owned(), |order| {
        let key: String = list(&order["key"]).iter().map(|member| format!("{member}, ")).collect();
        let series = format!(
            "{}.{}",
            path.split('/').next().unwrap_or_default(),
            order["series"].as_str().unwrap_or_default()
        );
        let (number, dense) = (&order["number"], &order["dense"]);
        let (repeatable, shared) = (order["repeatable"] == true, order["shared"] == true);
        format!(
            "Some(EventOrderRule {{ series: {series:?}, key: &[{key}], number: {number}, dense: {dense}, \
             repeatable: {repeatable}, shared: {shared} }})"
        )
    });
    let federation = doc.get("federation").map_or("None".to_owned(), |federation| {
        let (about, owner_only) = (&federation["about"], federation["owner_only"] == true);
        format!("Some(EventFederationRule {{ about: {about}, owner_only: {owner_only} }})")
    });
    let namespace = path.split('/').next().unwrap_or_default();
    format!(
        "EventSchema {{ name: {}, namespace: {namespace:?}, audience: EventAudience::{audience}, order: {order}, \
         federation: {federation}, doc: {} }}",
        doc["event"],
        parsed(path)
    )
}

fn federation(doc: &Value) -> String {
    let Some(federation) = doc.get("federation") else { return "None".to_owned() };
    let name = |member: &str| federation.get(member).and_then(Value::as_str);
    let (by, again, reads) = (name("by"), name("again"), &federation["reads"]);
    let may = |caller: &str| list(&federation["callers"]).iter().any(|listed| *listed == caller);
    let (agents, services) = (may("aid"), may("service"));
    format!(
        "Some(FederationRule {{ by: {by:?}, again: {again:?}, reads: {reads}, agents: {agents}, services: {services} }})"
    )
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
