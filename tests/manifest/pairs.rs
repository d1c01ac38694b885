//! Schemas and values by the hundred, always the same ones, on which another validator has to agree.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use manifest::{ArgumentValidator, schema_violations};
use serde_json::{Map, Value, json};

use super::fetched;

const PAIRS: usize = 800;

/// Numbers that look random and are not: the tests of today are those of tomorrow.
struct NumberSequence(u64);

impl NumberSequence {
    /// Less than `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).expect("a small number")]
    }

    fn name(&mut self) -> String {
        (*self.one_of(&["a", "b", "ab", "n_1"])).to_owned()
    }

    fn schema(&mut self, depth: u64) -> Value {
        let small = self.below(4);
        match self.below(if depth == 0 { 12 } else { 26 }) {
            0 => json!(true),
            1 => json!({}),
            2 => {
                json!({ "type": *self.one_of(&["null", "boolean", "integer", "number", "string", "array", "object"]) })
            }
            3 => {
                json!({ "type": [*self.one_of(&["integer", "string"]), *self.one_of(&["null", "array", "object"])] })
            }
            4 => json!({ "enum": [self.value(1), self.value(0)] }),
            5 => json!({ "const": self.value(1) }),
            6 => json!({ "minimum": small, "exclusiveMaximum": small + 2 }),
            7 => json!({ "multipleOf": small + 1 }),
            8 => json!({ "minLength": small, "maxLength": small + 1 }),
            9 => json!({ "pattern": *self.one_of(&["^a", "b$", "^[a-b]+$", "1"]) }),
            10 => json!({ "required": [self.name()], "maxProperties": small + 1 }),
            11 => json!({ "minItems": small, "uniqueItems": true }),
            12 => json!({ "allOf": [self.schema(depth - 1), self.schema(depth - 1)] }),
            13 => json!({ "anyOf": [self.schema(depth - 1), self.schema(depth - 1)] }),
            14 => json!({ "oneOf": [self.schema(depth - 1), self.schema(depth - 1)] }),
            15 => json!({ "not": self.schema(depth - 1) }),
            16 => {
                json!({ "if": self.schema(depth - 1), "then": self.schema(depth - 1), "else": self.schema(depth - 1) })
            }
            17 => json!({ "items": self.schema(depth - 1) }),
            18 => {
                json!({ "prefixItems": [self.schema(depth - 1), self.schema(depth - 1)], "items": self.below(2) == 0 })
            }
            19 => {
                json!({ "contains": self.schema(depth - 1), "minContains": small, "maxContains": small + 1 })
            }
            20 => {
                json!({ "patternProperties": { "^a": self.schema(depth - 1) }, "propertyNames": { "maxLength": 2 } })
            }
            21 => json!({ "dependentRequired": { "a": [self.name()] }, "minProperties": small }),
            22 => json!({ "dependentSchemas": { "a": self.schema(depth - 1) } }),
            23 => {
                json!({ "properties": { "a": self.schema(depth - 1) }, "additionalProperties": self.schema(depth - 1) })
            }
            24 => {
                json!({ "properties": { "a": true }, "anyOf": [{ "properties": { "b": self.schema(depth - 1) } }], "unevaluatedProperties": self.below(2) == 0 })
            }
            _ => {
                json!({ "properties": { "a": { "$ref": "#/$defs/d" } }, "$defs": { "d": self.schema(0) }, "required": [self.name()] })
            }
        }
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 8 } else { 14 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(6)),
            3 => json!(-1),
            4 => json!(1.5),
            5 => json!(2.0),
            6 => json!(*self.one_of(&["", "a", "b", "ab", "1"])),
            7 => json!("aba"),
            8..=10 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let members: Map<String, Value> =
                    (0..self.below(4)).map(|_| (self.name(), self.value(depth - 1))).collect();
                Value::Object(members)
            }
        }
    }
}

/// A schema for an object that is at the top, so that its references lead where they should.
fn pairs() -> Vec<(Value, Value)> {
    let mut numbers = NumberSequence(202_012);
    let mut pairs = Vec::new();
    while pairs.len() < PAIRS {
        let schema = numbers.schema(2);
        // The definition of a nested schema is not at the top, and such a schema is refused.
        if schema_violations(&schema).is_empty() {
            pairs.push((schema, numbers.value(2)));
        }
    }
    pairs
}

#[test]
fn ajv_agrees() {
    let pairs = pairs();
    let ours: Vec<bool> = pairs
        .iter()
        .map(|(schema, value)| ArgumentValidator::new(schema).expect("it was accepted").accepts(value))
        .collect();
    let valid = ours.iter().filter(|valid| **valid).count();
    assert!(
        (PAIRS / 10..PAIRS * 9 / 10).contains(&valid),
        "{valid} of {PAIRS} are valid, which tests little"
    );

    let Some(folder) = fetched::ajv() else { return };
    let written = tempfile::tempdir().expect("a folder");
    let file = written.path().join("pairs.json");
    let all: Vec<Value> =
        pairs.iter().map(|(schema, value)| json!({ "schema": schema, "value": value })).collect();
    std::fs::write(&file, json!(all).to_string()).expect("a file can be written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manifest/ajv_pairs.mjs");
    let output = Command::new("timeout")
        .args(["120", "node"])
        .args([&script, &folder])
        .stdin(Stdio::from(File::open(&file).expect("it was written")))
        .output()
        .expect("node can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<bool> = serde_json::from_slice(&output.stdout).expect("a list of verdicts");
    assert_eq!(theirs.len(), PAIRS);
    let differences = pairs.iter().zip(ours.iter().zip(&theirs)).filter(|(_, (ours, theirs))| ours != theirs);
    let lines: Vec<String> =
        differences.map(|((schema, value), (ours, _))| format!("{schema} {value}: we say {ours}")).collect();
    assert!(lines.is_empty(), "{} verdicts differ:\n{}", lines.len(), lines.join("\n"));
}
