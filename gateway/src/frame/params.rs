//! The parameters of a request, read without copying their values.

use kernel::strict_json::{self, ObjectMembers};
use kernel::{RpcError, codes, parse_params};
use proto_schemas::Request;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The parameters of a method that the gateway answers itself, read as a service reads them.
pub fn read<R: Request + DeserializeOwned>(params: Option<&RawValue>) -> Result<R, RpcError> {
    read_as(R::METHOD, params)
}

/// The same where the gateway has a type of its own for them.
pub fn read_as<P: DeserializeOwned>(method: &str, params: Option<&RawValue>) -> Result<P, RpcError> {
    let method = proto_schemas::find(method).ok_or_else(|| RpcError::plain(codes::METHOD_NOT_FOUND))?;
    parse_params(method, params)
}

pub fn members(object: &RawValue) -> Result<ObjectMembers<'_>, RpcError> {
    strict_json::members(object.get())
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))
}

/// Whether a name may be in the text, written plainly, as in `quoted`, or with escapes. A quick look that may say yes for
/// nothing, and never no.
pub fn may_contain(params: &RawValue, quoted: &str) -> bool {
    let text = params.get();
    text.contains(quoted) || text.contains("\\u")
}
