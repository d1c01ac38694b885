//! How a call that is made again is recognized: by its key, and by the hash of what it wants to do.

use super::model::error::Error;
use super::model::operation::RepeatKey;
use certs::canonical_json;
use kernel::{Aid, sha256_hex};
use proto_schemas::requests::task::{IdempotencyKey, NewArtifact, TaskArtifact};
use proto_schemas::{Request, fields_of};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Members of a call that decide how it is repeated, and not what it does.
const ABOUT_REPEATING: [&str; 3] = ["request_id", "idempotency_key", "expected_version"];

/// Of what a call wants to do, however its JSON was written. A member that was left out is hashed as null: stored hashes are of that
/// form, and have to be found again after an update of the server.
pub(super) fn body_hash<R: Request + DeserializeOwned>(params: &R) -> Result<String, Error> {
    let mut body = serde_json::to_value(params).map_err(Error::stored)?;
    add_nulls::<R>(&mut body);
    if let Value::Object(members) = &mut body {
        members.retain(|name, _| !ABOUT_REPEATING.contains(&name.as_str()));
        members.get_mut("artifact").into_iter().for_each(add_nulls::<NewArtifact>);
        let several = members.get_mut("artifacts").and_then(Value::as_array_mut);
        several.into_iter().flatten().for_each(add_nulls::<NewArtifact>);
    }
    Ok(hash(R::METHOD, &body))
}

/// Writes null for the members of a type that were left out.
fn add_nulls<T: DeserializeOwned>(value: &mut Value) {
    let Value::Object(members) = value else { return };
    for name in fields_of::<T>().into_iter().flatten() {
        members.entry(*name).or_insert(Value::Null);
    }
}

/// Of everything that makes it the same artifact. Of a content, its hash is enough.
pub(super) fn artifact_digest(artifact: &TaskArtifact) -> Result<String, Error> {
    Ok(hash("artifact", &serde_json::to_value(artifact).map_err(Error::stored)?))
}

fn hash(kind: &str, body: &Value) -> String {
    sha256_hex([kind.as_bytes(), &canonical_json(body)].concat())
}

/// The key of a call with an `idempotency_key`: one agent's, over all its tasks.
pub(super) fn idempotency<R: Request + DeserializeOwned>(
    aid: &Aid,
    params: &R,
    key: Option<&IdempotencyKey>,
) -> Result<Option<RepeatKey>, Error> {
    let Some(key) = key else { return Ok(None) };
    let (scope, key) = (format!("owner {aid}"), key.as_str().to_owned());
    Ok(Some(RepeatKey { scope, key, body_hash: body_hash(params)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::requests::task::{Cancel, Fail, SendInput};

    #[test]
    fn the_hash_of_a_call_depends_on_what_it_does_and_not_on_how_it_is_written() {
        fn of<R: Request + DeserializeOwned>(text: &str) -> String {
            body_hash(&serde_json::from_str::<R>(text).unwrap()).unwrap()
        }
        let said = of::<SendInput>(r#"{"task_id":"t","input":{"type":"json","content":{"a":1,"b":2}}}"#);
        let again = r#"{ "request_id": "r", "expected_version": 3, "input_id": null,
            "input": { "content": { "b": 2, "a": 1 }, "type": "json" }, "task_id": "t" }"#;
        assert_eq!(said, of::<SendInput>(again));
        let other = r#"{"task_id":"t","input":{"type":"json","content":{"a":1,"b":3}}}"#;
        assert_ne!(said, of::<SendInput>(other));
        let reason = r#"{"task_id":"t","reason":"no"}"#;
        assert_ne!(of::<Cancel>(reason), of::<Fail>(reason), "another method is another call");
    }
}
