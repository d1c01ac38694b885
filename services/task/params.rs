//! What parameters are made of, and their rules: text of limited length, content blocks and artifacts.

use super::model::error::Error;
use super::model::operation::{OfferedArtifact, RepeatKey};
use certs::canonical_json;
use kernel::{Aid, sha256_hex};
use proto_schemas::requests::task::TaskArtifact;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// What may be said at once.
const BLOCK_BYTES: usize = 64 << 10;
const REFERENCE_BYTES: usize = 4096;
/// Members of a call that decide how it is repeated, and not what it does.
const ABOUT_REPEATING: [&str; 3] = ["request_id", "idempotency_key", "expected_version"];

/// Text of so many characters at least and at most, without control characters but tabs and line ends: neither store takes a NUL.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct LimitedText<const LEAST: usize, const MOST: usize>(String);

pub(super) type RequestId = LimitedText<1, 64>;
pub(super) type IdempotencyKey = LimitedText<1, 128>;
pub(super) type InputId = LimitedText<1, 128>;
pub(super) type Title = LimitedText<0, 256>;
pub(super) type TaskReason = LimitedText<0, 1024>;

impl<const LEAST: usize, const MOST: usize> LimitedText<LEAST, MOST> {
    pub fn into_text(self) -> String {
        self.0
    }
}

impl<const LEAST: usize, const MOST: usize> TryFrom<String> for LimitedText<LEAST, MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if !(LEAST..=MOST).contains(&text.chars().count()) {
            return Err(format!("it must have {LEAST} to {MOST} characters"));
        }
        if text.chars().any(|next| next.is_control() && !matches!(next, '\n' | '\r' | '\t')) {
            return Err("it must not have control characters".to_owned());
        }
        Ok(LimitedText(text))
    }
}

/// What is said, as it was written: an object with a type, whose members fit the type where we know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Box<RawValue>")]
pub(super) struct ContentBlock(pub Box<RawValue>);

impl TryFrom<Box<RawValue>> for ContentBlock {
    type Error = String;

    fn try_from(raw: Box<RawValue>) -> Result<ContentBlock, String> {
        if raw.get().len() > BLOCK_BYTES {
            return Err(format!("a content block has at most {BLOCK_BYTES} bytes"));
        }
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get())
            .map_err(|_| "a content block must be an object with a type".to_owned())?;
        let is_text = |name: &str| members.get(name).is_some_and(|value| value.get().starts_with('"'));
        let kind = members.get("type").and_then(|kind| serde_json::from_str::<String>(kind.get()).ok());
        let fits = match kind.as_deref() {
            None | Some("") => return Err("a content block must have a type, which is text".to_owned()),
            Some("text") => is_text("content"),
            Some("json") => members.contains_key("content"),
            Some("storage_ref") => ["owner_aid", "bucket", "object_key"].into_iter().all(is_text),
            Some(_) => true,
        };
        match (fits, kind.as_deref()) {
            (true, _) => Ok(ContentBlock(raw)),
            (false, Some("storage_ref")) => {
                Err("a storage_ref must have owner_aid, bucket and object_key".to_owned())
            }
            (false, _) => Err("a content block of this type must have its content".to_owned()),
        }
    }
}

/// A JSON object of limited length, as it was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Box<RawValue>")]
pub(super) struct LimitedObject(pub Box<RawValue>);

impl TryFrom<Box<RawValue>> for LimitedObject {
    type Error = String;

    fn try_from(raw: Box<RawValue>) -> Result<LimitedObject, String> {
        if !raw.get().starts_with('{') {
            return Err("it must be an object".to_owned());
        }
        if raw.get().len() > REFERENCE_BYTES {
            return Err(format!("it has at most {REFERENCE_BYTES} bytes"));
        }
        Ok(LimitedObject(raw))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArtifactParams {
    id: LimitedText<1, 128>,
    #[serde(rename = "type")]
    kind: LimitedText<1, 64>,
    name: Option<LimitedText<0, 256>>,
    mime_type: Option<LimitedText<0, 128>>,
    content: Option<Box<RawValue>>,
    #[serde(rename = "ref")]
    reference: Option<LimitedObject>,
    size_bytes: Option<i64>,
    sha256: Option<String>,
}

impl ArtifactParams {
    /// What a content weighs and hashes to is computed here; what the caller says of it must be right.
    pub fn offered(self) -> Result<OfferedArtifact, Error> {
        let wrong = |member: &str| Error::Param(format!("{member} is not that of the content"));
        if self.size_bytes.is_some_and(|size| size < 0) {
            return Err(Error::Param("size_bytes must not be negative".to_owned()));
        }
        if self.sha256.as_ref().is_some_and(|hash| !is_sha256(hash)) {
            return Err(Error::Param("sha256 must have 64 hex digits in lower case".to_owned()));
        }
        let (bytes, size_bytes, sha256) = match &self.content {
            None => (0, self.size_bytes, self.sha256),
            Some(content) => {
                let text = serde_json::from_str::<String>(content.get());
                let text = text.unwrap_or_else(|_| content.get().to_owned());
                let (size, hash) = (text.len() as i64, sha256_hex(&text));
                if self.size_bytes.is_some_and(|given| given != size) {
                    return Err(wrong("size_bytes"));
                }
                if self.sha256.is_some_and(|given| given != hash) {
                    return Err(wrong("sha256"));
                }
                (size, Some(size), Some(hash))
            }
        };
        let stored = TaskArtifact {
            id: self.id.into_text(),
            kind: self.kind.into_text(),
            name: self.name.map(LimitedText::into_text),
            mime_type: self.mime_type.map(LimitedText::into_text),
            content: None,
            reference: self.reference.map(|reference| reference.0),
            size_bytes,
            sha256,
            created_by: String::new(),
            created_at: String::new(),
        };
        // Of a content, its hash is enough.
        let digest = body_hash("artifact", &stored)?;
        Ok(OfferedArtifact { stored, content: self.content, bytes, digest })
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Of what a call wants to do, however its JSON was written.
pub(super) fn body_hash(method: &str, params: &impl Serialize) -> Result<String, Error> {
    let mut params = serde_json::to_value(params).map_err(Error::stored)?;
    if let Value::Object(members) = &mut params {
        members.retain(|name, _| !ABOUT_REPEATING.contains(&name.as_str()));
    }
    Ok(sha256_hex([method.as_bytes(), &canonical_json(&params)].concat()))
}

/// The key of an `idempotency_key`: one agent's, over all its tasks.
pub(super) fn idempotency(aid: &Aid, key: IdempotencyKey, body_hash: &str) -> RepeatKey {
    RepeatKey { scope: format!("owner {aid}"), key: key.into_text(), body_hash: body_hash.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(text: &str) -> Result<ContentBlock, serde_json::Error> {
        serde_json::from_str(text)
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
            assert_eq!(block(good).unwrap().0.get(), good, "as it was written");
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
    fn text_has_its_length_and_no_control_characters() {
        assert!(RequestId::try_from("ä".repeat(64)).is_ok());
        for bad in [String::new(), "ä".repeat(65), "a\u{0}b".to_owned(), "\u{1b}[2J".to_owned()] {
            assert!(RequestId::try_from(bad.clone()).is_err(), "{bad:?}");
        }
        assert!(TaskReason::try_from("two\nlines".to_owned()).is_ok());
    }

    #[test]
    fn an_artifact_knows_its_size_and_hash_and_believes_no_others() {
        let artifact = |json: Value| serde_json::from_value::<ArtifactParams>(json).unwrap().offered();
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
        ] {
            assert!(artifact(bad.clone()).is_err(), "{bad}");
        }
        for bad in [json!({ "id": "", "type": "text" }), json!({ "id": "a", "type": "text", "ref": 7 })] {
            assert!(serde_json::from_value::<ArtifactParams>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_hash_of_a_call_depends_on_what_it_does_and_not_on_how_it_is_written() {
        let hash = |text: &str| body_hash("m", &serde_json::from_str::<Value>(text).unwrap()).unwrap();
        let one = hash(r#"{"a":1,"b":{"c":2,"d":3}}"#);
        assert_eq!(
            one,
            hash(r#"{ "b": { "d": 3, "c": 2 }, "a": 1, "request_id": "r", "expected_version": 3 }"#)
        );
        assert_ne!(one, hash(r#"{"a":1,"b":{"c":2,"d":4}}"#));
        assert_ne!(one, body_hash("n", &json!({ "a": 1, "b": { "c": 2, "d": 3 } })).unwrap());
    }
}
