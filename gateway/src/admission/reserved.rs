//! Names of parameters that are reserved for the server.

use crate::frame::params;
use kernel::RpcError;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;

/// Removes every member whose name begins with `_`. Such names are reserved for the server: what they say about a
/// caller comes from its connection, never from its parameters.
pub fn strip_reserved(params: Option<Cow<'_, RawValue>>) -> Result<Option<Cow<'_, RawValue>>, RpcError> {
    let Some(params) = params else { return Ok(None) };
    if !params::may_contain(&params, "\"_") {
        return Ok(Some(params));
    }
    let mut members = params::members(&params)?;
    let before = members.len();
    members.retain(|name, _| !name.starts_with('_'));
    if members.len() == before {
        return Ok(Some(params));
    }
    to_raw_value(&members).map(|kept| Some(Cow::Owned(kept))).map_err(RpcError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> String {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        strip_reserved(Some(Cow::Owned(raw))).unwrap().unwrap().get().to_owned()
    }

    #[test]
    fn reserved_names_are_removed_however_they_are_written() {
        assert_eq!(stripped(r#"{"_auth":{"aid":"x"},"to":"y"}"#), r#"{"to":"y"}"#);
        assert_eq!(stripped(r#"{"\u005fcaller_id":1,"to":"y"}"#), r#"{"to":"y"}"#);
        assert_eq!(stripped(r#"{"to":{"_kept":1}}"#), r#"{"to":{"_kept":1}}"#);
        assert_eq!(stripped(r#"{ "n": 1.50 }"#), r#"{ "n": 1.50 }"#, "what has none is passed on unchanged");
    }
}
