//! The parameters of a request, read without copying their values.

use kernel::strict_json::{self, ObjectMembers};
use kernel::{RpcError, codes};
use serde_json::value::RawValue;

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
