//! `/agent.md` on an agent's host, and its front page: read by everybody, written by the agent itself.

use super::put_agent_md::etag;
use super::{AgentService, page};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use kernel::http::{HostAgent, header_text, json_text, refuse, with_header};
use kernel::{Aid, Caller, RpcError};
use proto_schemas::requests::agent::{DeleteAgentMd, FoundAgentMd, GetAgentMd, PutAgentMd};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FORMAT: HeaderName = HeaderName::from_static("x-aun-signature-format");
const MARKDOWN: &str = "text/markdown; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// What decides which of the forms of a document `/` answers.
const VARIES: &str = "Accept, X-AUN-Signature-Format";

pub(super) fn routes(agent: Arc<AgentService>) -> Router {
    Router::new()
        .route("/agent.md", get(read).put(write).delete(remove))
        .route("/", get(front_page).put(write).delete(remove))
        .with_state(agent)
}

/// A page for browsers, and the document for everybody else.
async fn front_page(
    agent: State<Arc<AgentService>>,
    host: HostAgent,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, RpcError> {
    if !wants_page(&headers) {
        return Ok(with_header(read(agent, host, caller, headers).await?, VARY, VARIES));
    }
    let (State(agent), HostAgent(Some(aid))) = (agent, host) else { return Ok(no_agent()) };
    let found = agent.get_agent_md(caller, GetAgentMd { aid: aid.clone(), multi: Some(true) }).await?;
    let Some(content) = found.content else { return Ok(none_published(&aid)) };
    let html = page::html(&aid, &content);
    let etag = etag(&html);
    let response = match names_etag(&headers, &etag) {
        Some(true) => StatusCode::NOT_MODIFIED.into_response(),
        _ => html.into_response(),
    };
    let headers = [
        (CONTENT_TYPE, HTML),
        (CONTENT_SECURITY_POLICY, page::content_security_policy()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (VARY, VARIES),
        (ETAG, &*etag),
    ];
    Ok(headers.into_iter().fold(response, |response, (name, value)| with_header(response, name, value)))
}

async fn read(
    State(agent): State<Arc<AgentService>>,
    HostAgent(aid): HostAgent,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, RpcError> {
    let Some(aid) = aid else { return Ok(no_agent()) };
    let multi = Some(text(&headers, FORMAT) == Some("multi-v1"));
    let found = agent.get_agent_md(caller, GetAgentMd { aid: aid.clone(), multi }).await?;
    let FoundAgentMd { content: Some(content), etag: Some(etag), last_modified, .. } = found else {
        return Ok(none_published(&aid));
    };
    let modified = time(last_modified.unwrap_or_default());
    let response = match is_unchanged(&headers, &etag, modified) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => content.into_response(),
    };
    let response = with_header(response, CONTENT_TYPE, MARKDOWN);
    let response = with_header(response, VARY, "X-AUN-Signature-Format");
    Ok(with_version(response, &etag, modified))
}

async fn write(
    State(agent): State<Arc<AgentService>>,
    HostAgent(aid): HostAgent,
    caller: Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, RpcError> {
    let Some(aid) = aid else { return Ok(no_agent()) };
    if let Some(refused) = may_not_publish(&caller, &aid) {
        return Ok(refused);
    }
    let Ok(content) = String::from_utf8(body.into()) else {
        return Ok(refuse(StatusCode::BAD_REQUEST, "invalid_document", "the document is not UTF-8"));
    };
    let document = PutAgentMd {
        aid: aid.clone(),
        content,
        if_match: header_text(&headers, IF_MATCH.as_str())?.map(str::to_owned),
        if_none_match: header_text(&headers, IF_NONE_MATCH.as_str())?.map(str::to_owned),
    };
    let published = agent.put_agent_md(caller, document).await?;
    let modified = time(published.last_modified);
    let mut answer = json!({
        "aid": aid,
        "etag": published.etag,
        "last_modified": httpdate::fmt_http_date(modified),
        "agent_md_url": format!("https://{aid}/agent.md"),
    });
    if let Some(warnings) = &published.warnings {
        answer["warnings"] = json!(warnings);
    }
    Ok(with_version(json_text(StatusCode::OK, answer.to_string()), &published.etag, modified))
}

async fn remove(
    State(agent): State<Arc<AgentService>>,
    HostAgent(aid): HostAgent,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, RpcError> {
    let Some(aid) = aid else { return Ok(no_agent()) };
    if let Some(refused) = may_not_publish(&caller, &aid) {
        return Ok(refused);
    }
    let if_match = header_text(&headers, IF_MATCH.as_str())?.map(str::to_owned);
    agent.delete_agent_md(caller, DeleteAgentMd { aid, if_match }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Browsers name this type, programs do not.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|types| types.split(',')).any(|accepted| {
        let mut parts = accepted.split(';').map(str::trim);
        let refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("text/html")) && !parts.any(refused)
    })
}

fn may_not_publish(caller: &Caller, aid: &Aid) -> Option<Response> {
    let Ok(session) = caller.local_agent() else {
        let sentence = "a valid access token is needed to publish, and to remove what was published";
        let refused = refuse(StatusCode::UNAUTHORIZED, "unauthorized", sentence);
        return Some(with_header(refused, WWW_AUTHENTICATE, "Bearer"));
    };
    let sentence = format!("{} may not publish for {aid}", session.aid);
    (session.aid != *aid).then(|| refuse(StatusCode::FORBIDDEN, "forbidden", &sentence))
}

fn no_agent() -> Response {
    let sentence = "an agent.md is served under the host name of its agent";
    refuse(StatusCode::NOT_FOUND, "not_found", sentence)
}

fn none_published(aid: &Aid) -> Response {
    refuse(StatusCode::NOT_FOUND, "not_found", &format!("{aid} has published no agent.md"))
}

/// Whether the reader has this version already.
fn is_unchanged(headers: &HeaderMap, etag: &str, modified: SystemTime) -> bool {
    names_etag(headers, etag).unwrap_or_else(|| {
        let since = text(headers, IF_MODIFIED_SINCE).and_then(|date| httpdate::parse_http_date(date).ok());
        since.is_some_and(|since| whole_seconds(modified) <= since)
    })
}

/// Whether the reader names this version, if it names any.
fn names_etag(headers: &HeaderMap, etag: &str) -> Option<bool> {
    let etags = text(headers, IF_NONE_MATCH)?;
    Some(etags.split(',').map(str::trim).any(|known| known == "*" || known == etag))
}

fn with_version(response: Response, etag: &str, modified: SystemTime) -> Response {
    let response = with_header(response, ETAG, etag);
    with_header(response, LAST_MODIFIED, &httpdate::fmt_http_date(modified))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn time(unix_ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(unix_ms.try_into().unwrap_or_default())
}

/// HTTP dates have no fractions of a second.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    UNIX_EPOCH + Duration::from_secs(seconds)
}
