//! `/agent.md` on an agent's host: read by everybody, written by the agent itself.

use super::reply::{Reply, json_reply, refuse, text};
use super::request::{Host, HttpRequest};
use hyper::header::{ALLOW, ETAG, LAST_MODIFIED, VARY};
use hyper::{Method, StatusCode};
use proto_schemas::requests::agent;
use serde_json::json;
use services::kernel::{Aid, RpcError, codes};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FORMAT: &str = "x-aun-signature-format";
const MARKDOWN: &str = "text/markdown; charset=utf-8";

pub(super) async fn answer(mut request: HttpRequest<'_>) -> Result<Reply, RpcError> {
    let Host::Agent(aid) = std::mem::replace(&mut request.host, Host::Gateway) else {
        return Ok(refuse(
            StatusCode::NOT_FOUND,
            "not_found",
            "an agent.md is served under the host name of its agent",
        ));
    };
    match request.method {
        Method::GET | Method::HEAD => read(&request, &aid).await,
        Method::PUT => write(&mut request, &aid).await,
        _ => Ok(refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "only GET, HEAD and PUT are allowed",
        )
        .header(ALLOW, "GET, HEAD, PUT, OPTIONS")),
    }
}

async fn read(request: &HttpRequest<'_>, aid: &Aid) -> Result<Reply, RpcError> {
    let multi = Some(request.header(FORMAT) == Some("multi-v1"));
    let found = request.gateway.ask(&agent::GetAgentMd { aid: aid.to_string(), multi }).await?;
    let (Some(content), Some(etag)) = (found.content, found.etag) else {
        return Ok(refuse(StatusCode::NOT_FOUND, "not_found", &format!("{aid} has published no agent.md")));
    };
    let modified = time(found.last_modified.unwrap_or_default());
    let unchanged = match request.header("if-none-match") {
        Some(etags) => etags.split(',').map(str::trim).any(|known| known == "*" || known == etag),
        None => request
            .header("if-modified-since")
            .and_then(date)
            .is_some_and(|since| whole_seconds(modified) <= since),
    };
    let (status, body) =
        if unchanged { (StatusCode::NOT_MODIFIED, "") } else { (StatusCode::OK, content.as_str()) };
    Ok(text(status, MARKDOWN, body)
        .header(ETAG, &etag)
        .header(LAST_MODIFIED, &httpdate::fmt_http_date(modified))
        .header(VARY, "X-AUN-Signature-Format"))
}

async fn write(request: &mut HttpRequest<'_>, aid: &Aid) -> Result<Reply, RpcError> {
    let Some(caller) = bearer(request).await? else {
        return Ok(refuse(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "a valid access token is needed to publish",
        )
        .header("www-authenticate", "Bearer"));
    };
    if caller != *aid {
        return Ok(refuse(
            StatusCode::FORBIDDEN,
            "forbidden",
            &format!("{caller} may not publish for {aid}"),
        ));
    }
    let body = match request.body().await {
        Ok(body) => body,
        Err(refused) => return Ok(refused),
    };
    let Ok(content) = std::str::from_utf8(&body) else {
        return Ok(refuse(StatusCode::BAD_REQUEST, "invalid_document", "the document is not UTF-8"));
    };

    let document = agent::PutAgentMd {
        aid: aid.to_string(),
        content: content.to_owned(),
        if_match: request.header("if-match").map(str::to_owned),
        if_none_match: request.header("if-none-match").map(str::to_owned),
    };
    let published = request.gateway.ask(&document).await?;
    let modified = httpdate::fmt_http_date(time(published.last_modified));
    let answer = json!({
        "aid": aid,
        "etag": published.etag,
        "last_modified": modified,
        "agent_md_url": format!("https://{aid}/agent.md"),
    });
    Ok(json_reply(StatusCode::OK, &answer).header(ETAG, &published.etag).header(LAST_MODIFIED, &modified))
}

/// The agent whose token the request has, if it is valid.
async fn bearer(request: &HttpRequest<'_>) -> Result<Option<Aid>, RpcError> {
    let token = request.header("authorization").and_then(|value| value.split_once(' '));
    let Some(token) =
        token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim())
    else {
        return Ok(None);
    };
    match request.gateway.admission.authenticate(token).await {
        Ok(aid) => Ok(Some(aid)),
        Err(error) if error.code() == codes::TOKEN_INVALID.code => Ok(None),
        Err(error) => Err(error),
    }
}

fn time(unix_ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(unix_ms.try_into().unwrap_or_default())
}

fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// HTTP dates have no fractions of a second.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    UNIX_EPOCH + Duration::from_secs(seconds)
}
