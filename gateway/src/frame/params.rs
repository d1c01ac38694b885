//! The parameters of a request, read without copying their values.

use kernel::{RpcError, codes};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The members of an object in the order of their names, their values as they were written.
pub type ParamMembers<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

pub fn parse<T: DeserializeOwned + Default>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let Some(params) = params else { return Ok(T::default()) };
    serde_json::from_str(params.get())
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))
}

pub fn members(object: &RawValue) -> Result<ParamMembers<'_>, RpcError> {
    #[derive(serde::Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(transparent)]
    struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);
    let named: BTreeMap<MemberName<'_>, &RawValue> = serde_json::from_str(object.get())
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))?;
    Ok(named.into_iter().map(|(MemberName(name), value)| (name, value)).collect())
}

/// Whether a name may be in the text, written plainly, as in `quoted`, or with escapes. A quick look that may say yes for
/// nothing, and never no.
pub fn may_contain(params: &RawValue, quoted: &str) -> bool {
    let text = params.get();
    text.contains(quoted) || text.contains("\\u")
}
