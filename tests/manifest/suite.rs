//! JSON Schema 2020-12, keyword by keyword: our own cases, and those of the official suite. What manifests refuse of them is listed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use manifest::{ArgumentValidator, Manifest, schema_violations};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fetched;

/// A schema and values for it, as the official suite writes them.
#[derive(Deserialize)]
struct SchemaGroup {
    description: String,
    schema: Value,
    tests: Vec<SchemaCase>,
    /// The rule for which a manifest with this schema is refused.
    refused: Option<String>,
}

#[derive(Deserialize)]
struct SchemaCase {
    data: Value,
    valid: bool,
}

/// A schema of the official suite that no manifest may have.
#[derive(Deserialize)]
struct RefusedSchema {
    file: String,
    description: String,
    rule: String,
}

/// The groups of all files in a folder, with the name of the file.
fn groups(folder: &Path) -> Vec<(String, SchemaGroup)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder with cases") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a file with cases");
        let groups: Vec<SchemaGroup> =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        found.extend(groups.into_iter().map(|group| (name.clone(), group)));
    }
    found
}

/// What is wrong with our verdicts on the values.
fn wrong(file: &str, group: &SchemaGroup) -> Vec<String> {
    let what = format!("{file}: {}", group.description);
    match ArgumentValidator::new(&group.schema) {
        Err(reason) => vec![format!("{what}: {reason}")],
        Ok(validator) => {
            let wrong = group.tests.iter().filter(|case| validator.accepts(&case.data) != case.valid);
            wrong.map(|case| format!("{what}: {} must be {}", case.data, case.valid)).collect()
        }
    }
}

#[test]
fn our_own_cases_are_as_the_standard_has_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manifest/suite");
    let groups = groups(&folder);
    assert!(groups.len() > 60, "{}", groups.len());
    let mut flaws = Vec::new();
    for (file, group) in &groups {
        let violations = schema_violations(&group.schema);
        match &group.refused {
            None => {
                flaws.extend(violations.iter().map(|violation| format!("{file}: {violation:?}")));
                flaws.extend(wrong(file, group));
            }
            Some(rule) if violations.iter().any(|violation| violation.rule == *rule) => {}
            Some(rule) => flaws.push(format!("{file}: {}: {rule} in {violations:?}", group.description)),
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

/// A manifest whose tool takes arguments by this schema.
fn manifest_with(schema: &Value) -> String {
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {},
        "tools": [{
            "name": "any_tool", "description_i18n_key": "k", "permission_scope": "filesystem:read", "input_schema": schema
        }],
        "permission_scopes": [{ "id": "filesystem:read", "label_i18n_key": "k", "sensitivity": "medium" }],
    })
    .to_string()
}

#[test]
fn the_official_suite_passes_and_manifests_refuse_what_is_listed() {
    let Some(folder) = fetched::official_suite() else { return };
    let list = include_str!("official_suite_refused.json");
    let list: Vec<RefusedSchema> = serde_json::from_str(list).expect("a list");
    let expected: BTreeSet<(String, String, String)> =
        list.into_iter().map(|entry| (entry.file, entry.description, entry.rule)).collect();

    let (mut refused, mut flaws, mut cases) = (BTreeSet::new(), Vec::new(), 0);
    for (file, group) in groups(&folder) {
        if let Some(violation) = schema_violations(&group.schema).first() {
            refused.insert((file, group.description, violation.rule.to_owned()));
        } else {
            if let Err(refusal) = Manifest::parse(&manifest_with(&group.schema)) {
                flaws.push(format!("{file}: {}: {refusal}", group.description));
            }
            flaws.extend(wrong(&file, &group));
            cases += group.tests.len();
        }
    }
    assert!(flaws.is_empty(), "{} verdicts are wrong:\n{}", flaws.len(), flaws.join("\n"));
    assert!(cases > 1000, "only {cases} cases were run");
    let unlisted: Vec<_> = refused.difference(&expected).collect();
    let accepted: Vec<_> = expected.difference(&refused).collect();
    assert!(unlisted.is_empty() && accepted.is_empty(), "unlisted: {unlisted:#?}, accepted: {accepted:#?}");
}
