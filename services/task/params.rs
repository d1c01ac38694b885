//! What parameters must be beyond their types: content blocks, objects of limited length and artifacts.

use super::model::error::Error;
use super::model::operation::OfferedArtifact;
use super::repeats::artifact_digest;
use kernel::sha256_hex;
use proto_schemas::LimitedText;
use proto_schemas::requests::task::{NewArtifact, TaskArtifact};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// What may be said at once.
const BLOCK_BYTES: usize = 64 << 10;
const OBJECT_BYTES: usize = 4096;

/// A content block is an object with a type, whose members fit the type where we know it.
pub(super) fn check_block(path: &str, block: &RawValue) -> Result<(), Error> {
    let wrong = |sentence: &str| Err(Error::member(path, sentence));
    if block.get().len() > BLOCK_BYTES {
        return wrong(&format!("a content block has at most {BLOCK_BYTES} bytes"));
    }
    let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(block.get()) else {
        return wrong("a content block must be an object with a type");
    };
    let is_text = |name: &str| members.get(name).is_some_and(|value| value.get().starts_with('"'));
    let kind = members.get("type").and_then(|kind| serde_json::from_str::<String>(kind.get()).ok());
    let fits = match kind.as_deref() {
        None | Some("") => return wrong("a content block must have a type, which is text"),
        Some("storage_ref") if !["owner_aid", "bucket", "object_key"].into_iter().all(is_text) => {
            return wrong("a storage_ref must have owner_aid, bucket and object_key");
        }
        Some("text") => is_text("content"),
        Some("json") => members.contains_key("content"),
        Some(_) => true,
    };
    if fits { Ok(()) } else { wrong("a content block of this type must have its content") }
}

/// An object that is stored as it was written.
pub(super) fn check_object(path: &str, object: Option<&RawValue>) -> Result<(), Error> {
    let Some(text) = object.map(RawValue::get) else { return Ok(()) };
    if !text.starts_with('{') {
        return Err(Error::member(path, "it must be an object"));
    }
    if text.len() > OBJECT_BYTES {
        return Err(Error::member(path, &format!("it has at most {OBJECT_BYTES} bytes")));
    }
    Ok(())
}

/// What a content weighs and hashes to is computed here; what the caller says of it must be right.
pub(super) fn offered(path: &str, artifact: NewArtifact) -> Result<OfferedArtifact, Error> {
    check_object(&format!("{path}.ref"), artifact.reference.as_deref())?;
    let wrong = |member: &str| Error::Param(format!("{member} does not match the content"));
    if artifact.size_bytes.is_some_and(|size| size < 0) {
        return Err(Error::Param("size_bytes must not be negative".to_owned()));
    }
    if artifact.sha256.as_ref().is_some_and(|hash| !is_sha256(hash)) {
        return Err(Error::Param("sha256 must have 64 hex digits in lower case".to_owned()));
    }
    let (bytes, size_bytes, sha256) = match &artifact.content {
        None => (0, artifact.size_bytes, artifact.sha256),
        Some(content) => {
            let text = serde_json::from_str::<String>(content.get());
            let text = text.unwrap_or_else(|_| content.get().to_owned());
            let (size, hash) = (text.len() as i64, sha256_hex(&text));
            if artifact.size_bytes.is_some_and(|given| given != size) {
                return Err(wrong("size_bytes"));
            }
            if artifact.sha256.is_some_and(|given| given != hash) {
                return Err(wrong("sha256"));
            }
            (size, Some(size), Some(hash))
        }
    };
    let stored = TaskArtifact {
        id: artifact.id.into_text(),
        kind: artifact.kind.into_text(),
        name: artifact.name.map(LimitedText::into_text),
        mime_type: artifact.mime_type.map(LimitedText::into_text),
        content: None,
        reference: artifact.reference,
        size_bytes,
        sha256,
        created_by: String::new(),
        created_at: String::new(),
    };
    let digest = artifact_digest(&stored)?;
    Ok(OfferedArtifact { stored, content: artifact.content, bytes, digest })
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::RpcError;
    use serde_json::{Value, json};

    fn block(text: &str) -> Result<(), Error> {
        check_block("input", &RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn a_content_block_is_an_object_that_fits_its_type() {
        for good in [
            r#"{"type":"text","content":""}"#,
            r#"{"type":"json","content":null}"#,
            r#"{"type":"json","content":{"a":[1.50]}}"#,
            r#"{"type":"storage_ref","owner_aid":"a","bucket":"b","object_key":"c"}"#,
            r#"{"type":"e2ee","ciphertext":"x"}"#,
            r#"{"type":"something else"}"#,
        ] {
            assert!(block(good).is_ok(), "{good}");
        }
        for bad in [
            "7",
            "[]",
            "\"x\"",
            "{}",
            r#"{"type":""}"#,
            r#"{"type":7}"#,
            r#"{"type":"text"}"#,
            r#"{"type":"text","content":7}"#,
            r#"{"type":"json"}"#,
            r#"{"type":"storage_ref","owner_aid":"a","bucket":"b"}"#,
        ] {
            assert!(block(bad).is_err(), "{bad}");
        }
        let of = |bytes: usize| json!({ "type": "text", "content": "x".repeat(bytes) }).to_string();
        let empty = of(0).len();
        assert!(block(&of(BLOCK_BYTES - empty)).is_ok());
        assert!(block(&of(BLOCK_BYTES - empty + 1)).is_err());
    }

    #[test]
    fn a_wrong_member_is_answered_with_its_path() {
        let refused = RpcError::from(block("7").unwrap_err());
        let sentence = "input: a content block must be an object with a type";
        assert_eq!((refused.code(), refused.to_string().as_str()), (-32602, sentence));
        assert_eq!(refused.data("violations").unwrap()[0]["path"], "/input");
    }

    #[test]
    fn an_artifact_knows_its_size_and_hash_and_believes_no_others() {
        let artifact = |json: Value| offered("artifact", serde_json::from_value(json).unwrap());
        let hello = artifact(json!({ "id": "a", "type": "text", "content": "hé" })).unwrap();
        assert_eq!((hello.bytes, hello.stored.size_bytes), (3, Some(3)), "the bytes of the text");
        assert_eq!(hello.stored.sha256.as_deref(), Some(sha256_hex("hé").as_str()));
        let data = artifact(json!({ "id": "a", "type": "json", "content": { "b": 1 } })).unwrap();
        assert_eq!(data.bytes, 7, "the bytes of the JSON");
        assert_ne!(hello.digest, data.digest);
        let named = artifact(json!({ "id": "a", "type": "text", "name": "n", "content": "hé" })).unwrap();
        assert_ne!(hello.digest, named.digest, "another name is another artifact");
        let reference = json!({ "bucket": "b" });
        let elsewhere =
            artifact(json!({ "id": "a", "type": "storage_ref", "ref": reference, "size_bytes": 5 })).unwrap();
        assert_eq!((elsewhere.bytes, elsewhere.stored.size_bytes), (0, Some(5)));
        for bad in [
            json!({ "id": "a", "type": "text", "content": "x", "size_bytes": 2 }),
            json!({ "id": "a", "type": "text", "content": "x", "sha256": "0".repeat(64) }),
            json!({ "id": "a", "type": "text", "sha256": "0" }),
            json!({ "id": "a", "type": "text", "size_bytes": -1 }),
            json!({ "id": "a", "type": "text", "ref": 7 }),
            json!({ "id": "a", "type": "text", "ref": { "key": "x".repeat(OBJECT_BYTES) } }),
        ] {
            assert!(artifact(bad.clone()).is_err(), "{bad}");
        }
    }
}
