//! The codes of errors that clients of agents, relations and tools see, with their HTTP status and the key of their translation.

use proto_schemas::{Code, codes};

/// Every code. Those that begin with `TOOL_` are answered by the clients that tools run on, never by this server; they are here so
/// that every code has one place.
const CATALOGUE: [(&str, u16); 36] = [
    ("INVALID_JSON", 400),
    ("INVALID_PARAMS", 400),
    ("UNAUTHORIZED", 401),
    ("AGENT_NOT_OWNER", 403),
    ("AGENT_PROOF_INVALID", 403),
    ("RELATION_FORBIDDEN", 403),
    ("AGENT_NOT_FOUND", 404),
    ("RELATION_NOT_FOUND", 404),
    ("AGENT_EXISTS", 409),
    ("MANIFEST_VERSION_CONFLICT", 409),
    ("RELATION_EXISTS", 409),
    ("RELATION_REVOKED", 409),
    ("MANIFEST_TOO_LARGE", 413),
    ("MANIFEST_INVALID", 422),
    ("MANIFEST_RESERVED_SCOPE", 422),
    ("MANIFEST_FALLBACK_REQUIRED", 422),
    ("MANIFEST_PRESET_SENSITIVITY", 422),
    ("CONNECTION_MODE_UNSUPPORTED", 422),
    ("WEBHOOK_URL_REFUSED", 422),
    ("SCOPE_NOT_DECLARED", 422),
    ("REQUIRED_SCOPE_NOT_GRANTED", 422),
    ("AGENT_LIMIT_REACHED", 429),
    ("RELATION_LIMIT_REACHED", 429),
    ("AGENT_TOOL_CALL_RATE_LIMITED", 429),
    ("RATE_LIMITED", 429),
    ("INTERNAL", 500),
    ("FEDERATION_UNREACHABLE", 502),
    ("FEDERATION_REFUSED", 502),
    ("UNAVAILABLE", 503),
    ("SERVICE_STOPPING", 503),
    ("HANDLER_TIMEOUT", 504),
    ("FEDERATION_TIMEOUT", 504),
    ("TOOL_PLATFORM_ERROR", 200),
    ("TOOL_INVALID_ARGUMENTS", 200),
    ("TOOL_UNAVAILABLE", 200),
    ("METHOD_NOT_FOUND", 404),
];

pub(super) fn status_of(code: &str) -> Option<u16> {
    CATALOGUE.iter().find(|(name, _)| *name == code).map(|(_, status)| *status)
}

/// `error.manifest.too_large` for `MANIFEST_TOO_LARGE`.
pub(super) fn i18n_key(code: &str) -> String {
    let code = code.to_ascii_lowercase();
    match code.split_once('_') {
        Some((first, rest)) => format!("error.{first}.{rest}"),
        None => format!("error.{code}"),
    }
}

/// The generic code of the protocol, which every client knows, for what the catalogue says more precisely.
pub(super) fn rpc_code(status: u16) -> Code {
    match status {
        401 => codes::UNAUTHENTICATED,
        403 => codes::PERMISSION_DENIED,
        404 => codes::NOT_FOUND,
        409 => codes::VERSION_CONFLICT,
        429 => codes::RATE_LIMITED,
        _ => codes::INVALID_PARAMS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_is_listed_once_and_has_a_key_of_its_own() {
        let names: BTreeSet<&str> = CATALOGUE.iter().map(|(name, _)| *name).collect();
        let keys: BTreeSet<String> = CATALOGUE.iter().map(|(name, _)| i18n_key(name)).collect();
        assert_eq!((names.len(), keys.len()), (CATALOGUE.len(), CATALOGUE.len()));
        assert_eq!(i18n_key("MANIFEST_TOO_LARGE"), "error.manifest.too_large");
        assert_eq!(i18n_key("UNAUTHORIZED"), "error.unauthorized");
        for tool in ["TOOL_PLATFORM_ERROR", "TOOL_INVALID_ARGUMENTS", "TOOL_UNAVAILABLE"] {
            assert!(names.contains(tool));
        }
    }
}
