//! All schemas as one self-contained OpenRPC document.

use serde_json::{Map, Value, json};

use crate::{Access, Code, Method, codes, common, events, methods};

/// The OpenRPC document of the methods that are `wanted`, for a server of this `version`.
pub fn openrpc(version: &str, wanted: impl Fn(&Method) -> bool) -> Value {
    let methods: Vec<_> = methods().iter().filter(|method| wanted(method)).map(method_object).collect();
    let events: Vec<_> = events().iter().map(|event| event.doc()).collect();
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "aund",
            "description": DESCRIPTION,
            "version": version,
            "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
        },
        "methods": methods,
        "components": { "schemas": common(), "errors": errors() },
        "x-events": events,
    })
}

const DESCRIPTION: &str = "JSON-RPC 2.0 over WebSocket for agents: identity, sessions and what is built on them. \
    Params are always an object. x-access says when a method may be called: public ones before login too, session \
    ones after auth.connect, internal ones only inside the server. x-events lists what the server sends without being \
    asked. Text in double braces in an example stands for a live value.";

fn method_object(method: &Method) -> Value {
    let doc = method.doc();
    let mut object = json!({
        "name": method.name,
        "summary": doc["summary"],
        "description": doc["description"],
        "tags": [{ "name": namespace(method.name) }],
        "paramStructure": "by-name",
        "params": params(&doc["params"]),
        "errors": error_references(method),
        "examples": examples(doc),
        "x-access": access(method.access),
        "x-rate": doc["rate"],
        // The list above cannot express rules between params, such as "one of these two".
        "x-params": doc["params"],
    });
    // OpenRPC knows a notification by the absence of a result.
    if !method.notification {
        object["result"] = json!({ "name": "result", "schema": doc["result"] });
    }
    if let Some(routes) = doc.get("http") {
        object["x-http"] = routes.clone();
    }
    object
}

fn namespace(name: &str) -> &str {
    name.split(['.', '/']).next().unwrap_or(name)
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Public => "public",
        Access::Session => "session",
        Access::Internal => "internal",
        Access::Peer => "peer",
    }
}

/// One content descriptor per property; OpenRPC wants the required ones before the optional ones.
fn params(schema: &Value) -> Vec<Value> {
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.contains(&name.into()));
    let (required, optional): (Vec<_>, Vec<_>) =
        schema["properties"].as_object().into_iter().flatten().partition(|(name, _)| is_required(name));
    let required = required.into_iter().map(|(name, schema)| content_descriptor(name, schema, true));
    let optional = optional.into_iter().map(|(name, schema)| content_descriptor(name, schema, false));
    required.chain(optional).collect()
}

fn content_descriptor(name: &str, schema: &Value, required: bool) -> Value {
    let mut descriptor = json!({ "name": name, "required": required, "schema": schema });
    if let Some(description) = schema.get("description") {
        descriptor["description"] = description.clone();
    }
    descriptor
}

/// OpenRPC has only examples that succeed: a pairing is params and a result.
fn examples(doc: &Value) -> Vec<Value> {
    let mut pairings = Vec::new();
    for example in doc["examples"].as_array().into_iter().flatten() {
        if example.get("error").is_some() {
            continue;
        }
        let fields = example["params"].as_object().into_iter().flatten();
        let params: Vec<_> = fields.map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let mut pairing = json!({ "name": example["name"], "params": params });
        if let Some(result) = example.get("result") {
            pairing["result"] = json!({ "name": "result", "value": result });
        }
        pairings.push(pairing);
    }
    pairings
}

fn error_references(method: &Method) -> Vec<Value> {
    let names = method.doc()["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let codes = names.filter_map(|name| Code::find(method.namespace, name));
    codes.map(|code| json!({ "$ref": format!("#/components/errors/{}", component(&code)) })).collect()
}

fn errors() -> Map<String, Value> {
    let object = |code: &Code| {
        let data = json!({ "kind": code.kind(), "retryable": code.retryable });
        json!({ "code": code.code, "message": code.message, "data": data })
    };
    codes::ALL.iter().map(|code| (component(code), object(code))).collect()
}

/// `search.AGENT_NOT_FOUND`; those of the protocol by their name alone.
fn component(code: &Code) -> String {
    code.namespace.map_or_else(|| code.name.to_owned(), |namespace| format!("{namespace}.{}", code.name))
}
