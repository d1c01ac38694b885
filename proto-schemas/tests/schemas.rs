//! The schema files follow their own rules, and together they make a valid OpenRPC document.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jsonschema::{Draft, Registry, Validator};
use proto_schemas::{Access, Code, codes, common, events, fill, find, methods, openrpc, standalone};
use serde_json::Value;

#[test]
fn every_successful_example_is_valid_by_its_schemas() {
    for method in methods() {
        let params = validator(&method.doc()["params"]);
        let result = method.doc().get("result").map(validator);
        for example in examples(method.doc()).filter(|example| example.get("error").is_none()) {
            let name = format!("{}, {}", method.name, example["name"]);
            assert_valid(&params, &filled(&example["params"]), &format!("the params of {name}"));
            if let Some(result) = &result {
                assert_valid(result, &example["result"], &format!("the result of {name}"));
            }
        }
    }
}

#[test]
fn an_example_that_fails_for_another_reason_has_params_of_the_right_form() {
    for method in methods() {
        let params = validator(&method.doc()["params"]);
        for example in examples(method.doc()) {
            let Some(error) = example.get("error") else { continue };
            // Params of the wrong form are answered before anything else, so every other error needs the right form.
            let right_form = params.is_valid(&filled(&example["params"]));
            let form_error = error == method.invalid_params.name || error == "BAD_PARAMETER";
            assert!(
                right_form || form_error,
                "{}, {}: the params have the wrong form",
                method.name,
                example["name"]
            );
        }
    }
}

#[test]
fn every_method_has_a_successful_example() {
    for method in methods() {
        let works = examples(method.doc()).any(|example| example.get("error").is_none());
        assert!(works, "{} has no successful example", method.name);
    }
}

#[test]
fn every_property_has_a_description() {
    for method in methods() {
        assert_described(&method.doc()["params"], method.name);
        assert_described(&method.doc()["result"], method.name);
    }
    for event in events() {
        assert_described(&event.doc()["params"], event.name);
    }
    for (name, schema) in common().as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name} has no description");
        assert_described(schema, name);
    }
}

#[test]
fn every_event_example_is_valid_by_its_schema() {
    for event in events() {
        assert_valid(&validator(&event.doc()["params"]), &event.doc()["example"], event.name);
    }
}

#[test]
fn every_shared_schema_is_valid_and_its_own_examples_too() {
    for (name, schema) in common().as_object().unwrap() {
        let validator = validator(schema);
        for example in schema["examples"].as_array().into_iter().flatten() {
            assert_valid(&validator, example, name);
        }
    }
}

#[test]
fn every_reference_is_inside_the_document() {
    let document = openrpc("0.0.0", |_| true);
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let path =
            reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} points outside the document"));
        assert!(document.pointer(path).is_some(), "{reference} points to nothing");
    }
    for name in common().as_object().unwrap().keys() {
        assert!(found.contains(&format!("#/components/schemas/{name}")), "nothing refers to {name}");
    }
}

#[test]
fn the_document_is_openrpc() {
    let of_documents = meta_schema("openrpc-meta-schema.json");
    // The meta-schema refers to the one of JSON Schema in two spellings.
    let of_schemas = meta_schema("json-schema-meta-schema.json");
    let registry = Registry::new().draft(Draft::Draft7);
    let registry = registry.add("https://meta.json-schema.tools", of_schemas.clone()).unwrap();
    let registry = registry.add("https://meta.json-schema.tools/", of_schemas).unwrap().prepare().unwrap();
    let options = jsonschema::options().with_draft(Draft::Draft7).with_registry(&registry);
    let validator = options.build(&of_documents).unwrap();

    assert_valid(&validator, &openrpc("0.0.0", |_| true), "the whole document");
    let for_clients = openrpc("0.0.0", |method| method.access.is_for_agents());
    assert_valid(&validator, &for_clients, "the document for clients");

    let mut broken = for_clients;
    broken["methods"][0]["params"][0]["schema"] = "not a schema".into();
    assert!(!validator.is_valid(&broken), "the meta-schema accepts everything");
}

#[test]
fn every_route_is_in_the_openapi_document_with_its_statuses_and_examples() {
    let document = proto_schemas::openapi("1.0.0", |_| true);
    let mut ids = BTreeSet::new();
    for method in methods() {
        for route in method.http {
            let operation = &document["paths"][route.path][route.method.to_ascii_lowercase()];
            let at = format!("{} {}", route.method, route.path);
            assert!(ids.insert(operation["operationId"].to_string()), "{at}");
            assert_eq!(operation["x-method"], method.name, "{at}");
            let responses = operation["responses"].as_object().unwrap();
            let refused = if route.access.public { "429" } else { "401" };
            assert!(responses.contains_key(refused), "{at}");
            for (status, response) in responses {
                let content = &response["content"]["application/json"];
                let validator = match content.get("schema") {
                    Some(schema) => validator(schema),
                    None => continue,
                };
                let several =
                    content["examples"].as_object().into_iter().flatten().map(|(_, one)| &one["value"]);
                for example in content.get("example").into_iter().chain(several) {
                    assert_valid(&validator, &filled(example), &format!("{at} {status}"));
                }
            }
            let body = &operation["requestBody"]["content"]["application/json"];
            if let Some(example) = body.get("example") {
                assert_valid(&validator(&body["schema"]), &filled(example), &at);
            }
        }
    }
    for (namespace, prefix) in
        proto_schemas::namespaces().iter().flat_map(|all| all.http.iter().map(move |one| (all, one)))
    {
        let mut paths = document["paths"].as_object().unwrap().keys();
        assert!(
            paths.any(|path| prefix.covers(path)),
            "{}: nothing is listed below {}",
            namespace.name,
            prefix.path
        );
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[test]
fn the_document_holds_what_was_wanted_and_nothing_else() {
    let document = openrpc("1.2.3", |method| method.access == Access::Public);
    assert_eq!(document["info"]["version"], "1.2.3");
    let listed: Vec<_> =
        document["methods"].as_array().unwrap().iter().map(|method| &method["name"]).collect();
    let public: Vec<_> = methods().iter().filter(|method| method.access == Access::Public).collect();
    assert_eq!(listed, public.iter().map(|method| method.name).collect::<Vec<_>>());
}

#[test]
fn required_params_come_before_optional_ones() {
    for method in openrpc("0.0.0", |_| true)["methods"].as_array().unwrap() {
        let required: Vec<_> =
            method["params"].as_array().unwrap().iter().map(|param| &param["required"]).collect();
        assert!(required.is_sorted_by_key(|required| **required == false), "{}", method["name"]);
    }
}

#[test]
fn a_method_is_found_at_the_path_that_is_its_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for method in methods() {
        let text = fs::read_to_string(root.join(format!("{}.json", method.name.replace('.', "/")))).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), *method.doc());
        assert_eq!(find(method.name).unwrap().name, method.name);
    }
    assert!(find("auth.fly").is_none());
}

#[test]
fn a_name_is_that_of_the_own_service_or_of_the_protocol() {
    let find = |method: &str, name: &str| Code::find(find(method).unwrap().namespace, name);
    assert_eq!(find("search.get_agent", "AGENT_NOT_FOUND"), Some(codes::search::AGENT_NOT_FOUND));
    assert_eq!(find("agent.get", "agent_not_found"), Some(codes::agent::AGENT_NOT_FOUND));
    assert_eq!(find("h2a.grant", "AGENT_NOT_FOUND"), Some(codes::agent::AGENT_NOT_FOUND), "one service");
    assert_eq!(find("message.send", "AGENT_NOT_FOUND"), None);
    assert_eq!(find("message.send", "RATE_LIMITED"), Some(codes::RATE_LIMITED));
    assert_eq!(codes::RATE_LIMITED.kind(), "rate_limited");
    assert_eq!(codes::agent::MANIFEST_TOO_LARGE.i18n_key(), "error.manifest.too_large");
    assert_eq!(codes::INTERNAL.i18n_key(), "error.internal");
}

#[test]
fn the_substrings_that_clients_match_are_in_the_messages() {
    assert!(codes::AID_EXISTS.message.contains("already exists"));
    assert!(codes::NOT_REGISTERED.message.contains("not registered"));
    assert!(codes::HANDLER_TIMEOUT.message.starts_with("rpc handler timeout"));
    assert_eq!(codes::SHORT_CAPACITY.message, "short_connection_capacity_exceeded");
}

fn examples(doc: &Value) -> impl Iterator<Item = &Value> {
    doc["examples"].as_array().into_iter().flatten()
}

fn validator(schema: &Value) -> Validator {
    let schema = standalone(schema);
    jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    let complaints: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(complaints.is_empty(), "{what}: {complaints:#?}");
}

/// A reference carries the description of what it refers to.
fn assert_described(schema: &Value, place: &str) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let described = property["description"].is_string() || property["$ref"].is_string();
        assert!(described, "{name} in {place} has no description");
        assert_described(property, &format!("{place}.{name}"));
    }
    if schema["items"].is_object() {
        assert_described(&schema["items"], place);
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let (true, Some(reference)) = (name == "$ref", field.as_str()) {
                    found.insert(reference.to_owned());
                }
                references(field, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// The example with its live values, or rather with values of the same form.
fn filled(params: &Value) -> Value {
    fill(params, &mut |name| sample(name).map(str::to_owned)).expect("the README lists every placeholder")
}

fn sample(name: &str) -> Option<&'static str> {
    Some(match name {
        "aid" | "published_aid" => "alice.agents.localhost",
        "peer_aid" => "bobb.agents.localhost",
        "fresh_aid" => "carol.agents.localhost",
        "issuer" => "agents.localhost",
        "cert" | "other_root" | "gateway_cert" | "gateway_issuer" | "gateway_registry" => {
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
        }
        "serial" => "3dfd7116126f4b7ad8426f2ed26d1c575a366eae",
        "fingerprint" => "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "public_key" | "public_key_p384" => "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE",
        "client_nonce" | "request_id" | "login_nonce" | "challenge_nonce" => "veiB514erPRNMcFX",
        "access_token" | "refresh_token" => "a-token",
        "agent_token" => "hsk_0aZ9bY8cX70aZ9bY8cX70aZ9bY8cX70aZ9bY8cX7",
        "offered_task" | "accepted_task" | "own_task" => "task_0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4",
        "own_agent" | "hooked_agent" | "relation" | "suspended_relation" => {
            "0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4"
        }
        "own_thread" | "fresh_thread" => "550e8400-e29b-41d4-a716-446655440000",
        "own_picture" => "alice.agents.localhost/550e8400-e29b-41d4-a716-446655440000.png",
        "own_run" | "approval_run" | "runner_run" => "run_0190163d868b7ce2a5f1c1b6d0b3a7e4",
        "own_command" | "runner_command" => "cmd_0190163d868b7ce2a5f1c1b6d0b3a7e4",
        "own_runner_job" => "rjob_0190163d868b7ce2a5f1c1b6d0b3a7e4",
        "own_run_session" | "runner_session" => "sess_0190163d868b7ce2a5f1c1b6d0b3a7e4",
        "open_approval" => "approval-1",
        "runner_id" => "runner_0190163d868b7ce2a5f1c1b6d0b3a7e4",
        "runner_attempt" => "attempt_0190163d868b7ce2a5f1c1b6d0b3a7e4",
        "runner_epoch" => "1",
        "tenant_token" => "art_0aZ9bY8cX70aZ9bY8cX70aZ9bY8cX70aZ9bY8cX7",
        "tenant_token_prefix" => "art_0aZ9bY8c",
        "configured_profile" => "deepseek",
        "validation" => "val_0190163d868b7ce2a5f1c1b6d0b3a7e4",
        "trusted_root" => "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "now_ms" => "1794701761845",
        "now_seconds" => "1794701761",
        _ if name.starts_with("digest:") => {
            "5dc65f420ffc7007c78439d45a3c20d8f4fe5f7c83575c169e796a6ee7ab0819"
        }
        _ if name == "gateway_signature"
            || name.starts_with("signature:")
            || name.starts_with("proof_p384:") =>
        {
            "MEUCIQDYv3m0"
        }
        _ => return None,
    })
}

/// Both files name a dialect of their own that is draft 7 in all but name, so the name is taken off.
fn meta_schema(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let text = fs::read_to_string(path).expect("the meta-schema is beside the test");
    let mut schema: Value = serde_json::from_str(&text).expect("the meta-schema is JSON");
    schema.as_object_mut().expect("the meta-schema is an object").remove("$schema");
    schema
}
