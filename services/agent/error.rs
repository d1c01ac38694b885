//! What can go wrong in `agent.*` and `h2a.*`, and the code for each. These are read over HTTP, so each also names its status.

use kernel::agent_md::AgentMdError;
use kernel::{ChargeError, PageLimitError, RpcError, codes};
use manifest::{ManifestRefusal, Violation};
use outbound::UrlRefused;
use proto_schemas::Code;
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("agent_md_too_large: {0}")]
    TooLarge(String),
    #[error("front matter `aid` is {found:?}; expected {expected}")]
    OtherAgent { found: String, expected: String },
    #[error(transparent)]
    Document(AgentMdError),
    #[error(transparent)]
    Secret(AgentMdError),
    #[error("signature block {block}: {reason}")]
    Signature { block: usize, reason: String },
    #[error(
        "agent.md of {0} is signed and can only be replaced by a signed one: sign it, or remove the old one"
    )]
    Unsigned(String),
    #[error("agent.md of {0} does not meet the condition of the request: it already exists or has changed")]
    Changed(String),
    #[error("{0} has published no agent.md")]
    NotFound(String),
    #[error("{0}")]
    Bad(&'static str),
    #[error("only the owner of agent {0} may do this")]
    NotOwner(String),
    #[error("agent {0} not found")]
    NoAgentRecord(String),
    #[error("{aid} is already registered")]
    AgentExists { aid: String, agent_id: String },
    #[error("an owner may have {0} agents at most")]
    TooManyAgents(i64),
    #[error("the proof is not accepted: {0}")]
    Proof(String),
    #[error("connection mode {0} is not offered")]
    ConnectionMode(&'static str),
    #[error("{member}: {reason}")]
    Url { member: &'static str, reason: UrlRefused },
    #[error("capability_manifest is not valid JSON: {0}")]
    ManifestJson(String),
    #[error("the manifest must have at most {limit} bytes in canonical form, and has {actual}")]
    ManifestTooLarge { limit: usize, actual: usize },
    #[error("the manifest is not accepted: {}", first_of(.violations))]
    Manifest { code: &'static str, violations: Vec<Violation> },
    #[error("capability_manifest must not be null: empty lists withdraw everything")]
    ManifestNull,
    #[error("the manifest has version {current}, not {expected}")]
    ManifestVersion { expected: i64, current: i64 },
    #[error("relation {0} not found")]
    NoRelation(String),
    #[error("the caller is not a party to this relation, or may only read it")]
    RelationForbidden,
    #[error("a relation with this agent already exists, with another grant or suspended")]
    RelationExists { relation_id: String },
    #[error("the relation is revoked permanently; h2a.grant begins a new one")]
    RelationRevoked,
    #[error("a user may have {0} relations at most")]
    TooManyRelations(i64),
    #[error("the agent does not declare these scopes: {}", .0.join(", "))]
    ScopeNotDeclared(Vec<String>),
    #[error("the agent requires these scopes: {}", .scopes.join(", "))]
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

impl From<ChargeError> for Error {
    fn from(error: ChargeError) -> Error {
        Error::Other(error.into())
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

/// With its status and the key of its translation, because these are read over HTTP, too.
fn listed(code: Code, error: &Error) -> RpcError {
    RpcError::new(code, error).with("http_status", code.http).with("i18n_key", code.i18n_key())
}

/// The grammar of manifests names its refusals, and knows no table.
fn manifest_code(name: &str) -> Code {
    let all = [
        codes::agent::MANIFEST_RESERVED_SCOPE,
        codes::agent::MANIFEST_FALLBACK_REQUIRED,
        codes::agent::MANIFEST_PRESET_SENSITIVITY,
    ];
    all.into_iter().find(|code| code.name == name).unwrap_or(codes::agent::MANIFEST_INVALID)
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::TooLarge(_) => RpcError::new(codes::agent::AGENT_MD_TOO_LARGE, error),
            Error::OtherAgent { .. } => RpcError::new(codes::PERMISSION_DENIED, error),
            Error::Document(_) | Error::Bad(_) => RpcError::new(codes::INVALID_PARAMS, error),
            // By its kind a client tells it from a document that is not well-formed.
            Error::Secret(_) => RpcError::new(codes::agent::SECRET_DETECTED, error),
            Error::Signature { .. } | Error::Unsigned(_) => RpcError::new(codes::SIGNATURE_INVALID, error),
            Error::Changed(_) => RpcError::new(codes::agent::AGENT_MD_CHANGED, error),
            Error::NotFound(_) => RpcError::new(codes::NOT_FOUND, error),
            Error::NotOwner(_) => listed(codes::agent::AGENT_NOT_OWNER, &error),
            Error::NoAgentRecord(_) => listed(codes::agent::AGENT_NOT_FOUND, &error),
            Error::AgentExists { ref agent_id, .. } => {
                listed(codes::agent::AGENT_EXISTS, &error).with("agent_id", agent_id.as_str())
            }
            Error::TooManyAgents(limit) => {
                listed(codes::agent::AGENT_LIMIT_REACHED, &error).with("limit", limit)
            }
            Error::Proof(_) => listed(codes::agent::AGENT_PROOF_INVALID, &error),
            Error::ConnectionMode(_) => listed(codes::agent::CONNECTION_MODE_UNSUPPORTED, &error),
            Error::Url { member, .. } => {
                listed(codes::agent::WEBHOOK_URL_REFUSED, &error).with("member", member)
            }
            Error::ManifestJson(_) => listed(codes::agent::INVALID_JSON, &error),
            Error::ManifestTooLarge { limit, actual } => {
                listed(codes::agent::MANIFEST_TOO_LARGE, &error).with("limit", limit).with("actual", actual)
            }
            Error::Manifest { code, ref violations } => {
                listed(manifest_code(code), &error).with("violations", json!(violations))
            }
            Error::ManifestNull => {
                let violation: Value =
                    json!({ "path": "", "rule": "type", "message": "it must be an object" });
                listed(codes::agent::MANIFEST_INVALID, &error).with("violations", json!([violation]))
            }
            Error::ManifestVersion { expected, current } => {
                listed(codes::agent::MANIFEST_VERSION_CONFLICT, &error)
                    .with("expected", expected)
                    .with("current", current)
            }
            Error::NoRelation(_) => listed(codes::h2a::RELATION_NOT_FOUND, &error),
            Error::RelationForbidden => listed(codes::h2a::RELATION_FORBIDDEN, &error),
            Error::RelationExists { ref relation_id } => {
                listed(codes::h2a::RELATION_EXISTS, &error).with("relation_id", relation_id.as_str())
            }
            Error::RelationRevoked => listed(codes::h2a::RELATION_REVOKED, &error),
            Error::TooManyRelations(limit) => {
                listed(codes::h2a::RELATION_LIMIT_REACHED, &error).with("limit", limit)
            }
            Error::ScopeNotDeclared(ref scopes) => {
                listed(codes::h2a::SCOPE_NOT_DECLARED, &error).with("scopes", json!(scopes))
            }
            Error::ScopeRequired { ref tools, ref scopes } => {
                listed(codes::h2a::REQUIRED_SCOPE_NOT_GRANTED, &error)
                    .with("tools", json!(tools))
                    .with("scopes", json!(scopes))
            }
            Error::Other(error) => error,
            Error::Store(source) => source.into(),
        }
    }
}
