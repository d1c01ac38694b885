//! Parameters as clients send them: what is stripped from them, and how the gateway reads them.

use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use services::kernel::{RpcError, codes};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The members of an object in the order of their names, their values as they were written.
pub type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

pub fn parse<T: DeserializeOwned + Default>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let Some(params) = params else { return Ok(T::default()) };
    serde_json::from_str(params.get())
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))
}

pub fn members(object: &RawValue) -> Result<Members<'_>, RpcError> {
    #[derive(serde::Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(transparent)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
    let named: BTreeMap<Name<'_>, &RawValue> = serde_json::from_str(object.get())
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))?;
    Ok(named.into_iter().map(|(Name(name), value)| (name, value)).collect())
}

/// Removes every member whose name begins with `_`. Such names belong to the server: what they say about a caller comes
/// from its connection, never from its parameters.
pub fn clean(params: Option<Box<RawValue>>) -> Result<Option<Box<RawValue>>, RpcError> {
    let Some(params) = params else { return Ok(None) };
    if !may_hold(&params, "\"_") {
        return Ok(Some(params));
    }
    let mut members = members(&params)?;
    let before = members.len();
    members.retain(|name, _| !name.starts_with('_'));
    if members.len() == before {
        return Ok(Some(params));
    }
    to_raw_value(&members).map(Some).map_err(RpcError::internal)
}

/// Whether a name may stand in the text, written plainly, as in `quoted`, or with escapes.
pub fn may_hold(params: &RawValue, quoted: &str) -> bool {
    let text = params.get();
    text.contains(quoted) || text.contains("\\u")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> String {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        clean(Some(raw)).unwrap().unwrap().get().to_owned()
    }

    #[test]
    fn names_of_the_server_are_taken_out_however_they_are_written() {
        assert_eq!(cleaned(r#"{"_auth":{"aid":"x"},"to":"y"}"#), r#"{"to":"y"}"#);
        assert_eq!(cleaned(r#"{"\u005fcaller_id":1,"to":"y"}"#), r#"{"to":"y"}"#);
        assert_eq!(cleaned(r#"{"to":{"_kept":1}}"#), r#"{"to":{"_kept":1}}"#);
        assert_eq!(cleaned(r#"{ "n": 1.50 }"#), r#"{ "n": 1.50 }"#, "what has none is passed on as it came");
    }
}
