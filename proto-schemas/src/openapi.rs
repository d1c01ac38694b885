//! All HTTP of the server as one OpenAPI document: the routes of the methods, and what the namespaces list beside them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::envelope::{HttpEnvelope, Placeholder};
use crate::{
    Access, Code, HttpPrefix, HttpRoute, HttpRouteBody, HttpRouteStatus, Method, Namespace, codes, common,
    methods, namespaces, namespaces_of,
};

const BEARER: &str = "bearer";

/// The OpenAPI 3.1 document of a server of this `version`, with the routes of the methods that are `wanted`.
pub fn openapi(version: &str, wanted: impl Fn(&Method) -> bool) -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for method in methods().iter().filter(|method| wanted(method)) {
        for (at, route) in method.http.iter().enumerate() {
            let operation = RouteOperation { method, route, prefix: prefix_of(method, route) };
            let verb = route.method.to_ascii_lowercase();
            paths.entry(route.path).or_default().insert(verb, operation.object(at));
        }
    }
    for namespace in namespaces() {
        for listed in namespace.doc()["operations"].as_array().into_iter().flatten() {
            let (path, verb) = (listed["path"].as_str(), listed["method"].as_str());
            let (Some(path), Some(verb)) = (path, verb) else { continue };
            paths
                .entry(path)
                .or_default()
                .insert(verb.to_ascii_lowercase(), own_operation(namespace, listed));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "aund",
            "description": DESCRIPTION,
            "version": version,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": common(),
            "securitySchemes": { BEARER: { "type": "http", "scheme": "bearer" } },
        },
    })
}

const DESCRIPTION: &str = "What the server answers over HTTP. Every method that agents call is also answered by POST /rpc as \
    JSON-RPC; GET /capabilities says what is there right now. Text in double braces in an example stands for a live value.";

/// The declared path that a route is below: the longest.
fn prefix_of(method: &Method, route: &HttpRoute) -> Option<&'static HttpPrefix> {
    let paths = namespaces_of(method.namespace.service).flat_map(|namespace| namespace.http);
    paths.filter(|prefix| prefix.covers(route.path)).max_by_key(|prefix| prefix.path.len())
}

/// One method as one of its routes.
struct RouteOperation {
    method: &'static Method,
    route: &'static HttpRoute,
    prefix: Option<&'static HttpPrefix>,
}

impl RouteOperation {
    fn envelope(&self) -> &'static HttpEnvelope {
        self.prefix.map_or_else(crate::plain_envelope, |prefix| &**prefix.envelope)
    }

    fn object(&self, at: usize) -> Value {
        let doc = self.method.doc();
        let name = self.method.name;
        let id = if at == 0 { name.to_owned() } else { format!("{name}.{}", at + 1) };
        let mut object = json!({
            "operationId": id,
            "summary": doc["summary"],
            "description": doc["description"],
            "tags": [self.method.namespace.name],
            "parameters": self.parameters(),
            "responses": self.responses(),
            "security": self.security(),
            "x-method": name,
            "x-token-kinds": self.route.access.tokens,
        });
        if let Some(body) = self.request_body() {
            object["requestBody"] = body;
        }
        object
    }

    /// Without a token, with one, or either.
    fn security(&self) -> Value {
        match self.route.access.public {
            true => json!([{}, { BEARER: [] }]),
            false => json!([{ BEARER: [] }]),
        }
    }

    fn names_in_path(&self) -> impl Iterator<Item = &'static str> {
        self.route.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    fn parameters(&self) -> Vec<Value> {
        let params = &self.method.doc()["params"];
        let required =
            |name: &str| params["required"].as_array().is_some_and(|all| all.contains(&name.into()));
        let parameter = |place: &str, shown: &str, name: &str, needed: bool| {
            let mut schema = params["properties"][name].clone();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let mut object = json!({ "name": shown, "in": place, "required": needed, "schema": schema });
            if let Some(description) = description {
                object["description"] = description;
            }
            object
        };
        let path = self.names_in_path().map(|name| parameter("path", name, name, true));
        let query = self.route.query.iter().map(|name| parameter("query", name, name, required(name)));
        let headers =
            self.route.headers.iter().map(|(header, name)| parameter("header", header, name, required(name)));
        let known = self.route.etag.map(|_| {
            json!({ "name": "if-none-match", "in": "header", "required": false, "schema": { "type": "string" },
                    "description": "The ETag of what the reader has; the answer is 304 if it is the same." })
        });
        path.chain(query).chain(headers).chain(known).collect()
    }

    fn request_body(&self) -> Option<Value> {
        let params = &self.method.doc()["params"];
        match self.route.body {
            HttpRouteBody::None => None,
            HttpRouteBody::Text(name) => {
                let schema = &params["properties"][name];
                Some(json!({ "required": true, "content": { "text/plain": { "schema": schema } } }))
            }
            HttpRouteBody::Params => {
                let elsewhere: BTreeSet<&str> = self
                    .names_in_path()
                    .chain(self.route.query.iter().copied())
                    .chain(self.route.headers.iter().map(|(_, name)| *name))
                    .collect();
                let mut schema = params.clone();
                if let Some(properties) = schema["properties"].as_object_mut() {
                    properties.retain(|name, _| !elsewhere.contains(name.as_str()));
                }
                if let Some(required) = schema["required"].as_array_mut() {
                    required.retain(|name| !name.as_str().is_some_and(|name| elsewhere.contains(name)));
                }
                let needed = schema["required"].as_array().is_some_and(|all| !all.is_empty());
                let mut content = json!({ "schema": schema });
                let example = self.successful_example().and_then(|example| example["params"].as_object());
                if let Some(example) = example {
                    let own = example.iter().filter(|(name, _)| !elsewhere.contains(name.as_str()));
                    content["example"] = own.map(|(name, value)| (name.clone(), value.clone())).collect();
                }
                Some(json!({ "required": needed, "content": { "application/json": content } }))
            }
        }
    }

    fn successful_example(&self) -> Option<&'static Value> {
        let mut examples = self.method.doc()["examples"].as_array().into_iter().flatten();
        examples.find(|example| example.get("error").is_none())
    }

    fn responses(&self) -> Map<String, Value> {
        let mut responses = self.failures();
        let doc = self.method.doc();
        let statuses = match self.route.status {
            HttpRouteStatus::Always(status) => vec![status],
            HttpRouteStatus::ByMember { yes, no, .. } => vec![yes, no],
        };
        for status in statuses {
            let mut response = json!({ "description": doc["summary"] });
            if let Some(kind) =
                doc["http"].as_array().into_iter().flatten().find_map(|listed| self.own_form(listed))
            {
                response["content"] = json!({ kind: {} });
            } else if status != 204 {
                let mut content = json!({ "schema": self.success_schema() });
                if let Some(example) = self.success_example() {
                    content["example"] = example;
                }
                response["content"] = json!({ "application/json": content });
            }
            if self.route.etag.is_some() {
                response["headers"] = json!({ "ETag": { "schema": { "type": "string" } } });
            }
            responses.insert(status.to_string(), response);
        }
        if self.route.etag.is_some() || self.route.own_answer && self.route.method == "GET" {
            responses
                .insert("304".to_owned(), json!({ "description": "The reader has this version already." }));
        }
        responses
    }

    /// The media type that the service answers in, if this is the route that says so.
    fn own_form<'a>(&self, listed: &'a Value) -> Option<&'a str> {
        let this = listed["method"] == self.route.method && listed["path"] == self.route.path;
        listed["answer"].as_str().filter(|_| this)
    }

    /// The schema of the result, in the envelope.
    fn success_schema(&self) -> Value {
        let mut result = self.method.doc()["result"].clone();
        if let HttpRouteStatus::ByMember { member, .. } = self.route.status {
            remove_member(&mut result, member);
        }
        for name in self.route.nulls {
            let schema = result["properties"][*name].take();
            result["properties"][*name] = json!({ "anyOf": [schema, { "type": "null" }] });
        }
        let body = match self.route.result {
            Some(member) => {
                let body = result["properties"][member].clone();
                remove_member(&mut result, member);
                body
            }
            None => std::mem::replace(&mut result, json!({ "type": "object" })),
        };
        let Value::Object(template) = &self.envelope().success else { return body };
        let mut schema = if self.envelope().others { result } else { json!({ "type": "object" }) };
        for (name, value) in template {
            let of_member = if value == "$body" { body.clone() } else { json!({ "const": value }) };
            schema["properties"][name] = of_member;
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            schema["required"] = required.into_iter().chain([name.as_str().into()]).collect();
        }
        schema
    }

    fn success_example(&self) -> Option<Value> {
        let mut result = self.successful_example()?.get("result")?.clone();
        let members = result.as_object_mut()?;
        if let HttpRouteStatus::ByMember { member, .. } = self.route.status {
            members.remove(member);
        }
        for name in self.route.nulls {
            members.entry(*name).or_insert(Value::Null);
        }
        let body = match self.route.result {
            Some(member) => members.remove(member)?,
            None => Value::Object(std::mem::take(members)),
        };
        let Value::Object(template) = &self.envelope().success else { return Some(body) };
        let mut shown = if self.envelope().others { std::mem::take(members) } else { Map::new() };
        for (name, value) in template {
            shown.insert(name.clone(), if value == "$body" { body.clone() } else { value.clone() });
        }
        Some(Value::Object(shown))
    }

    /// By status: what the method refuses, and what the gateway does.
    fn failures(&self) -> Map<String, Value> {
        let listed = self.method.doc()["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let own = listed.filter_map(|name| Code::find(self.method.namespace, name));
        let mut all: Vec<Code> = own.collect();
        all.extend([codes::INVALID_REQUEST, codes::RATE_LIMITED, codes::INTERNAL, codes::UNAVAILABLE]);
        all.extend([codes::HANDLER_TIMEOUT, codes::METHOD_NOT_ALLOWED, codes::NOT_FOUND]);
        if self.route.body != HttpRouteBody::None {
            all.extend([codes::PARSE_ERROR, codes::BODY_TOO_LARGE, codes::BODY_TIMEOUT]);
            all.extend([codes::UNSUPPORTED_MEDIA_TYPE, codes::INVALID_PARAMS]);
        }
        if self.method.federation.is_some() {
            all.extend([codes::FEDERATION_UNREACHABLE, codes::FEDERATION_TIMEOUT, codes::FEDERATION_REFUSED]);
        }
        // A method for sessions may have a public route: what it shows without a token is not everything.
        if !self.route.access.public || self.method.access == Access::Session {
            all.extend([codes::UNAUTHENTICATED, codes::PERMISSION_DENIED]);
        }
        failures(self.envelope(), &all)
    }
}

fn remove_member(schema: &mut Value, name: &str) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove(name);
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.retain(|listed| listed != name);
    }
}

/// What stands in `operations`: an answer of the gateway or of a router that is no method.
fn own_operation(namespace: &Namespace, listed: &Value) -> Value {
    let path = listed["path"].as_str().unwrap_or_default();
    let paths = namespaces_of(namespace.service).flat_map(|namespace| namespace.http);
    let prefix = paths.filter(|prefix| prefix.covers(path)).max_by_key(|prefix| prefix.path.len());
    let envelope = prefix.map_or_else(crate::plain_envelope, |prefix| &**prefix.envelope);
    let mut all = vec![codes::RATE_LIMITED, codes::NOT_FOUND, codes::UNAVAILABLE, codes::METHOD_NOT_ALLOWED];
    all.extend([codes::INVALID_REQUEST, codes::UNAUTHENTICATED, codes::INTERNAL]);
    let mut responses = failures(envelope, &all);
    let kind = listed["answer"].as_str().unwrap_or("application/json");
    for status in listed["statuses"].as_array().into_iter().flatten().filter_map(Value::as_u64) {
        let described = match status {
            ..400 => json!({ "description": listed["summary"], "content": { kind: {} } }),
            _ => {
                let schema = schema_of(&envelope.failure);
                json!({ "description": "a refusal", "content": { "application/json": { "schema": schema } } })
            }
        };
        responses.entry(status.to_string()).or_insert(described);
    }
    let mut object = json!({
        "operationId": format!("{} {path}", listed["method"].as_str().unwrap_or_default()),
        "summary": listed["summary"],
        "tags": [namespace.name],
        "responses": responses,
    });
    let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = parts
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if !parameters.is_empty() {
        object["parameters"] = json!(parameters);
    }
    if let Some(body) = listed["body"].as_str() {
        object["requestBody"] = json!({ "required": true, "content": { body: {} } });
    }
    object
}

/// The failures of an envelope, by status, with an example of each error.
fn failures(envelope: &HttpEnvelope, all: &[Code]) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<(String, Value)>> = BTreeMap::new();
    for code in all {
        let row = envelope.row(code.name, code.http);
        let status = row.status.unwrap_or(code.http);
        let word = row.word.unwrap_or_else(|| envelope.words.written(code.name));
        let message = row.message.unwrap_or_else(|| code.message.to_owned());
        let example = example_of(&envelope.failure, &word, &message, status);
        let listed = by_status.entry(status).or_default();
        if !listed.iter().any(|(known, _)| *known == word) {
            listed.push((word, example));
        }
    }
    let response = |(status, listed): (u16, Vec<(String, Value)>)| {
        let words: Vec<&str> = listed.iter().map(|(word, _)| word.as_str()).collect();
        let examples: Map<String, Value> =
            listed.iter().map(|(word, example)| (word.clone(), json!({ "value": example }))).collect();
        let content = json!({ "schema": schema_of(&envelope.failure), "examples": examples });
        let described =
            json!({ "description": words.join(", "), "content": { "application/json": content } });
        (status.to_string(), described)
    };
    by_status.into_iter().map(response).collect()
}

/// The schema of what a template becomes.
fn schema_of(template: &Value) -> Value {
    match template {
        Value::String(text) => match Placeholder::of(text).map(|asked| asked.name) {
            Some("status" | "retry_after_ms") => json!({ "type": "integer" }),
            Some("details") => json!({ "type": "object" }),
            Some(name) if name.starts_with("details.") => json!({}),
            Some(_) => json!({ "type": "string" }),
            None => json!({ "const": text }),
        },
        Value::Object(members) => {
            let properties: Map<_, _> =
                members.iter().map(|(name, member)| (name.clone(), schema_of(member))).collect();
            let required: Vec<&String> =
                members.iter().filter(|(_, member)| !is_optional(member)).map(|(name, _)| name).collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
        other => json!({ "const": other }),
    }
}

fn is_optional(template: &Value) -> bool {
    template.as_str().and_then(Placeholder::of).is_some_and(|asked| asked.optional)
}

fn example_of(template: &Value, word: &str, message: &str, status: u16) -> Value {
    match template {
        Value::String(text) => match Placeholder::of(text).map(|asked| asked.name) {
            Some("word") => word.into(),
            Some("message") => message.into(),
            Some("status") => status.into(),
            Some("i18n_key") => HttpEnvelope::i18n_key(word).into(),
            Some("details") => json!({}),
            Some("trace_id") => "4bf92f3577b34da6a3ce929d0e0e4736".into(),
            Some("request_id") => "req_4bf92f3577b34da6a3ce929d0e0e4736".into(),
            _ => template.clone(),
        },
        Value::Object(members) => {
            let needed = members.iter().filter(|(_, member)| !is_optional(member));
            needed.map(|(name, member)| (name.clone(), example_of(member, word, message, status))).collect()
        }
        other => other.clone(),
    }
}
