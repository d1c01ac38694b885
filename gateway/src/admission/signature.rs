//! `client_signature`: a call that its caller signed. Verified wherever it is present, and accepted once if the call changes
//! something.

use super::Admission;
use super::executed_calls::{SignatureClaim, signature_key};
use super::signer::{CallSigner, KnownSigner};
use crate::frame::params;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::strict_json::ObjectMembers;
use kernel::{Aid, RpcError, codes, sha256_hex};
use proto_schemas::Method;
use proto_schemas::requests::{ClientSignature, ca};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

const MEMBER: &str = "client_signature";
/// How far the caller's clock may be from ours.
const WINDOW_SECONDS: i64 = 300;

impl Admission {
    /// Passes if there is no signature, or if it is valid and was not used before. For calls of which [`is_signed`] is true.
    pub async fn signature(
        &self,
        aid: &Aid,
        known: &KnownSigner,
        method: &Method,
        params: &RawValue,
    ) -> Result<Option<SignatureClaim>, RpcError> {
        let mut members = params::members(params)?;
        let Some(signature) = members.remove(MEMBER) else { return Ok(None) };
        // Clients sign what they mean to send; their libraries add reserved members, such as `_trace`, after that.
        members.retain(|name, _| !name.starts_with('_'));
        let claimed: ClientSignature = serde_json::from_str(signature.get())
            .map_err(|_| wrong("needs aid, cert_fingerprint, timestamp, params_hash and signature"))?;
        if claimed.aid != aid.as_str() {
            return Err(wrong("names another agent than this connection's"));
        }
        let timestamp =
            seconds(&claimed.timestamp).ok_or_else(|| wrong("has a timestamp that is not a number"))?;
        if timestamp.abs_diff(self.clock.now_seconds()) > WINDOW_SECONDS.unsigned_abs() {
            return Err(wrong("was made more than 300 seconds ago or ahead"));
        }
        if !hashes(&members)?.contains(&claimed.params_hash) {
            return Err(wrong("covers other parameters"));
        }

        // Another fingerprint than the known one may be of a newer certificate: the event about it may still be on its way.
        let same =
            |signer: &Arc<CallSigner>| same_fingerprint(&claimed.cert_fingerprint, &signer.fingerprint);
        let signer = match known.get().filter(same) {
            Some(signer) => signer,
            None => self.current_signer(aid, known).await?,
        };
        if !same_fingerprint(&claimed.cert_fingerprint, &signer.fingerprint) {
            return Err(wrong("was not made with the agent's current certificate"));
        }
        let signed = format!("{}|{}|{}|{}", method.name, claimed.aid, claimed.timestamp, claimed.params_hash);
        let bytes = STANDARD.decode(&claimed.signature).map_err(|_| wrong("is not base64"))?;
        if !signer.key.verify(signed.as_bytes(), &bytes) {
            return Err(wrong("does not match"));
        }
        if is_repeatable(method, &members) {
            return Ok(None);
        }
        let key = signature_key(timestamp, &signed, &bytes);
        match self.executed.begin(aid, key, self.oldest_signature()) {
            Some(claim) => Ok(Some(claim)),
            None => Err(wrong("was used before: sign every call separately")),
        }
    }

    /// A call that was signed before this moment, in unix seconds, is not accepted any more.
    pub(super) fn oldest_signature(&self) -> i64 {
        self.clock.now_seconds() - WINDOW_SECONDS
    }

    /// The agent's current certificate: the one that ca calls active, never one chosen by the claim.
    async fn current_signer(&self, aid: &Aid, known: &KnownSigner) -> Result<Arc<CallSigner>, RpcError> {
        let asked_at = known.replaced();
        let Some(cert) = self.mesh.known_cert("gateway", &ca::GetCert::of_aid(aid.as_str())).await? else {
            return Err(RpcError::new(codes::CERT_REVOKED, format!("{aid} has no active certificate")));
        };
        if cert.lifecycle_state != "active_signing" {
            return Err(wrong("needs a certificate that has not expired"));
        }
        let key = cert.certificate()?.public_key().clone();
        let signer = Arc::new(CallSigner { fingerprint: cert.fingerprint, key });
        known.keep(&signer, asked_at);
        Ok(signer)
    }
}

/// Whether there may be a signature to check. A quick look that may say yes for nothing.
pub fn is_signed(params: &RawValue) -> bool {
    params.get().len() > MEMBER.len() && params::may_contain(params, "\"client_signature")
}

/// Whether the same call again changes nothing: the method says so, or the parameter that makes a retry safe is there.
fn is_repeatable(method: &Method, members: &ObjectMembers<'_>) -> bool {
    let again = method.federation.and_then(|rule| rule.again);
    let given = |name: &str| members.get(name).is_some_and(|value| !matches!(value.get(), "null" | "\"\""));
    method.repeatable || again.is_some_and(given)
}

fn wrong(reason: &str) -> RpcError {
    RpcError::new(
        codes::CLIENT_SIGNATURE_INVALID,
        format!("client signature verification failed: it {reason}"),
    )
}

/// Whole seconds; a fraction, which some clients write, does not matter here.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction.bytes().all(|b| b.is_ascii_digit()).then(|| whole.parse().ok()).flatten()
}

fn same_fingerprint(claimed: &str, actual: &str) -> bool {
    let digits = |text: &str| text.trim_start_matches("sha256:").to_ascii_lowercase();
    digits(claimed) == digits(actual)
}

/// SHA-256 over the canonical parameters: names sorted at every depth, numbers exactly as they were written. Python sorts
/// names by code point and JavaScript by UTF-16 unit; both are accepted, and they differ only beyond the basic plane.
fn hashes(members: &ObjectMembers<'_>) -> Result<Vec<String>, RpcError> {
    let mut hashes = Vec::with_capacity(2);
    for order in [KeyOrder::CodePoint, KeyOrder::Utf16] {
        let mut text = String::new();
        write_object(&mut text, members.iter().map(|(name, value)| (name.clone(), *value)).collect(), order)
            .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))?;
        let hash = sha256_hex(&text);
        if !hashes.contains(&hash) {
            hashes.push(hash);
        }
    }
    Ok(hashes)
}

#[derive(Clone, Copy)]
enum KeyOrder {
    CodePoint,
    Utf16,
}

fn write(text: &mut String, value: &RawValue, order: KeyOrder) -> serde_json::Result<()> {
    let raw = value.get();
    match raw.as_bytes().first() {
        Some(b'{') => write_object(text, pairs(value)?, order),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw)?;
            text.push('[');
            for (index, item) in items.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(text, item, order)?;
            }
            text.push(']');
            Ok(())
        }
        Some(b'"') => {
            let string: String = serde_json::from_str(raw)?;
            text.push_str(&serde_json::to_string(&string)?);
            Ok(())
        }
        _ => {
            text.push_str(raw);
            Ok(())
        }
    }
}

fn pairs(object: &RawValue) -> serde_json::Result<Vec<(Cow<'_, str>, &RawValue)>> {
    let members: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(object.get())?;
    Ok(members.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect())
}

fn write_object(
    text: &mut String,
    mut pairs: Vec<(Cow<'_, str>, &RawValue)>,
    order: KeyOrder,
) -> serde_json::Result<()> {
    match order {
        // UTF-8 sorts as code points do.
        KeyOrder::CodePoint => pairs.sort_by(|(left, _), (right, _)| left.cmp(right)),
        KeyOrder::Utf16 => {
            pairs.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()))
        }
    }
    text.push('{');
    for (index, (name, value)) in pairs.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(&name)?);
        text.push(':');
        write(text, value, order)?;
    }
    text.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> String {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let mut text = String::new();
        write(&mut text, &raw, KeyOrder::CodePoint).unwrap();
        text
    }

    #[test]
    fn numbers_stay_as_they_were_written() {
        assert_eq!(canonical(r#"{ "b": 1.0, "a": [1e3, -0.50, 12] }"#), r#"{"a":[1e3,-0.50,12],"b":1.0}"#);
    }

    #[test]
    fn a_timestamp_is_a_number_of_seconds() {
        assert_eq!((seconds("17"), seconds("17.25")), (Some(17), Some(17)));
        for wrong in ["NaN", "inf", "1e9", "", "17.x"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn text_is_escaped_as_python_does_without_ascii() {
        assert_eq!(canonical(r#"{"t":"\u4f60\/\u0001\n\"é"}"#), "{\"t\":\"你/\\u0001\\n\\\"é\"}");
    }

    #[test]
    fn both_sort_orders_are_tried() {
        // U+1F600 sorts after U+FF01 by code point and before it by UTF-16 unit.
        let raw = RawValue::from_string("{\"\u{ff01}\":1,\"\u{1f600}\":2}".to_owned()).unwrap();
        assert_eq!(hashes(&params::members(&raw).unwrap()).unwrap().len(), 2);
        let raw = RawValue::from_string("{\"b\":1,\"a\":2}".to_owned()).unwrap();
        assert_eq!(hashes(&params::members(&raw).unwrap()).unwrap().len(), 1);
    }
}
