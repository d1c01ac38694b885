//! What can go wrong in `agent.*` and `h2a.*`, and the code for each. These are read over HTTP, so each also names its status.

use super::catalogue::{i18n_key, rpc_code, status_of};
use kernel::agent_md::AgentMdError;
use kernel::{PageLimitError, RpcError, codes};
use manifest::{ManifestRefusal, Violation};
use outbound::UrlRefused;
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("agent_md_too_large: {0}")]
    TooLarge(String),
    #[error("the document is about {found}, not about {expected}")]
    OtherAgent { found: String, expected: String },
    #[error(transparent)]
    Document(AgentMdError),
    #[error(transparent)]
    Secret(AgentMdError),
    #[error("signature block {block}: {reason}")]
    Signature { block: usize, reason: String },
    #[error(
        "agent.md of {0} is signed, and only a signed one takes its place: sign it, or remove the other first"
    )]
    Unsigned(String),
    #[error("agent.md of {0} changed meanwhile: read it again and repeat the change")]
    Changed(String),
    #[error("{0} has published no agent.md")]
    NotFound(String),
    #[error("{0}")]
    Bad(&'static str),
    #[error("only the owner of agent {0} may do this")]
    NotOwner(String),
    #[error("an agent token only reads: log in to change something")]
    OnlyReads,
    #[error("agent {0} not found")]
    NoAgentRecord(String),
    #[error("{aid} is registered already")]
    AgentExists { aid: String, agent_id: String },
    #[error("an owner may have {0} agents at most")]
    TooManyAgents(i64),
    #[error("the proof is not accepted: {0}")]
    Proof(String),
    #[error("connection mode {0} is not offered")]
    ConnectionMode(&'static str),
    #[error("{member}: {reason}")]
    Url { member: &'static str, reason: UrlRefused },
    #[error("capability_manifest is not JSON that can be read: {0}")]
    ManifestJson(String),
    #[error("the manifest has {actual} bytes in canonical form, and {limit} are accepted")]
    ManifestTooLarge { limit: usize, actual: usize },
    #[error("the manifest is not accepted: {}", first_of(.violations))]
    Manifest { code: &'static str, violations: Vec<Violation> },
    #[error("capability_manifest must not be null: empty lists withdraw everything")]
    ManifestNull,
    #[error("the manifest has version {current}, and not {expected}")]
    ManifestVersion { expected: i64, current: i64 },
    #[error("relation {0} not found")]
    NoRelation(String),
    #[error("the caller has no part in this relation, or may only read it")]
    RelationForbidden,
    #[error("there is a relation with this agent already, with another grant or suspended")]
    RelationExists { relation_id: String },
    #[error("the relation is revoked, and stays so")]
    RelationRevoked,
    #[error("a user may have {0} relations at most")]
    TooManyRelations(i64),
    #[error("the agent does not declare {}", .0.join(", "))]
    ScopeNotDeclared(Vec<String>),
    #[error("the agent requires {}", .scopes.join(", "))]
    ScopeRequired { tools: Vec<String>, scopes: Vec<String> },
    #[error(transparent)]
    Other(#[from] RpcError),
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

impl From<PageLimitError> for Error {
    fn from(_: PageLimitError) -> Error {
        Error::Bad(PageLimitError::SENTENCE)
    }
}

impl From<AgentMdError> for Error {
    fn from(error: AgentMdError) -> Error {
        match error {
            AgentMdError::TooLarge { .. } => Error::TooLarge(error.to_string()),
            AgentMdError::Secret { .. } => Error::Secret(error),
            AgentMdError::FrontMatter(_) | AgentMdError::Block { .. } | AgentMdError::Nul { .. } => {
                Error::Document(error)
            }
        }
    }
}

impl From<ManifestRefusal> for Error {
    fn from(refusal: ManifestRefusal) -> Error {
        match refusal {
            ManifestRefusal::NotJson(reason) => Error::ManifestJson(reason),
            ManifestRefusal::TooLarge { limit, actual } => Error::ManifestTooLarge { limit, actual },
            ManifestRefusal::Invalid { code, violations } => Error::Manifest { code, violations },
        }
    }
}

fn first_of(violations: &[Violation]) -> String {
    match violations {
        [] => "it breaks a rule".to_owned(),
        [one] => format!("{}: {}", one.path, one.message),
        [first, more @ ..] => format!("{}: {}, and {} more", first.path, first.message, more.len()),
    }
}

/// An error of the catalogue: the generic code of the protocol, and the precise one as `kind`, in lower case.
fn listed(code: &str, error: &Error) -> RpcError {
    let status = status_of(code).unwrap_or(500);
    RpcError::new(rpc_code(status), error)
        .with("kind", code.to_ascii_lowercase())
        .with("http_status", status)
        .with("i18n_key", i18n_key(code))
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::TooLarge(_) => RpcError::new(codes::INVALID_PARAMS, error).with("http_status", 413),
            Error::OtherAgent { .. } => {
                RpcError::new(codes::PERMISSION_DENIED, error).with("http_status", 403)
            }
            Error::Document(_) => RpcError::new(codes::INVALID_PARAMS, error).with("http_status", 400),
            // The word by which a client tells it from a document that is not well-formed.
            Error::Secret(_) => RpcError::new(codes::INVALID_PARAMS, error)
                .with("http_status", 422)
                .with("kind", "secret_detected"),
            Error::Signature { .. } | Error::Unsigned(_) => {
                RpcError::new(codes::SIGNATURE_INVALID, error).with("http_status", 400)
            }
            Error::Changed(_) => RpcError::new(codes::VERSION_CONFLICT, error).with("http_status", 412),
            Error::NotFound(_) => RpcError::new(codes::NOT_FOUND, error).with("http_status", 404),
            Error::Bad(_) => RpcError::new(codes::INVALID_PARAMS, error),
            Error::NotOwner(_) | Error::OnlyReads => listed("AGENT_NOT_OWNER", &error),
            Error::NoAgentRecord(_) => listed("AGENT_NOT_FOUND", &error),
            Error::AgentExists { ref agent_id, .. } => {
                listed("AGENT_EXISTS", &error).with("agent_id", agent_id.as_str())
            }
            Error::TooManyAgents(limit) => {
                listed("AGENT_LIMIT_REACHED", &error).with("limit", limit).with("retryable", false)
            }
            Error::Proof(_) => listed("AGENT_PROOF_INVALID", &error),
            Error::ConnectionMode(_) => listed("CONNECTION_MODE_UNSUPPORTED", &error),
            Error::Url { member, .. } => listed("WEBHOOK_URL_REFUSED", &error).with("member", member),
            Error::ManifestJson(_) => listed("INVALID_JSON", &error),
            Error::ManifestTooLarge { limit, actual } => {
                listed("MANIFEST_TOO_LARGE", &error).with("limit", limit).with("actual", actual)
            }
            Error::Manifest { code, ref violations } => {
                listed(code, &error).with("violations", json!(violations))
            }
            Error::ManifestNull => {
                let violation: Value =
                    json!({ "path": "", "rule": "type", "message": "it must be an object" });
                listed("MANIFEST_INVALID", &error).with("violations", json!([violation]))
            }
            Error::ManifestVersion { expected, current } => listed("MANIFEST_VERSION_CONFLICT", &error)
                .with("expected", expected)
                .with("current", current),
            Error::NoRelation(_) => listed("RELATION_NOT_FOUND", &error),
            Error::RelationForbidden => listed("RELATION_FORBIDDEN", &error),
            Error::RelationExists { ref relation_id } => {
                listed("RELATION_EXISTS", &error).with("relation_id", relation_id.as_str())
            }
            Error::RelationRevoked => listed("RELATION_REVOKED", &error),
            Error::TooManyRelations(limit) => {
                listed("RELATION_LIMIT_REACHED", &error).with("limit", limit).with("retryable", false)
            }
            Error::ScopeNotDeclared(ref scopes) => {
                listed("SCOPE_NOT_DECLARED", &error).with("scopes", json!(scopes))
            }
            Error::ScopeRequired { ref tools, ref scopes } => listed("REQUIRED_SCOPE_NOT_GRANTED", &error)
                .with("tools", json!(tools))
                .with("scopes", json!(scopes)),
            Error::Other(error) => error,
            Error::Store(source) => source.into(),
        }
    }
}
