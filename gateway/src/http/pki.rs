//! Certificates, the chain, revocation and the list of trusted roots, as clients fetch them.

use super::reply::{Reply, bytes, json_reply, not_found, refuse, text};
use super::request::{HttpRequest, unescape};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG};
use ring::digest;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{Caller, KnownCert, RpcError};

const PEM: &str = "application/x-pem-file";

pub(super) async fn answer(request: &HttpRequest<'_>, path: &str) -> Result<Reply, RpcError> {
    if let Some(aid) = path.strip_prefix("/pki/cert/") {
        return certificate(request, &unescape(aid)).await;
    }
    if let Some(serial) = path.strip_prefix("/pki/ocsp/") {
        return ocsp(request, &unescape(serial)).await;
    }
    match path {
        "/pki/chain" | "/ca/cert" => Ok(text(StatusCode::OK, PEM, &chain(request).await?.chain)),
        "/pki/root.crt" | "/root.crt" => {
            Ok(text(StatusCode::OK, PEM, chain(request).await?.certs.last().map_or("", |c| c)))
        }
        "/pki/crl.json" => {
            Ok(json_reply(StatusCode::OK, &request.gateway.ask("ca.get_crl", &json!({})).await?))
        }
        "/pki/issuer.crl" => crl(request, "issuer").await,
        "/pki/registry.crl" => crl(request, "registry").await,
        "/pki/root.crl" => crl(request, "root").await,
        "/pki/trust-roots.json" | "/pki/trust-roots" | "/pki/trust-root.json" | "/trust-root.json" => {
            trust_list(request).await
        }
        _ => Ok(not_found()),
    }
}

#[derive(Deserialize)]
struct CertChainResult {
    chain: String,
    certs: Vec<String>,
}

async fn chain(request: &HttpRequest<'_>) -> Result<CertChainResult, RpcError> {
    request.gateway.ask("ca.get_cert_chain", &json!({})).await
}

async fn certificate(request: &HttpRequest<'_>, aid: &str) -> Result<Reply, RpcError> {
    let authoritative = request.query("consistency") == Some("authoritative");
    let params = json!({
        "aid": aid,
        "cert_fingerprint": request.query("cert_fingerprint").filter(|text| !text.is_empty()),
        "key_purpose": request.query("key_purpose"),
        "consistency": request.query("consistency"),
    });
    let got: KnownCert = request.gateway.ask("ca.get_cert", &params).await?;
    if !got.found {
        return Ok(refuse(StatusCode::NOT_FOUND, "not_found", "certificate not found")
            .header(CACHE_CONTROL, "no-store"));
    }
    let reply = text(StatusCode::OK, PEM, &got.cert).header(CACHE_CONTROL, "no-store");
    if !authoritative {
        return Ok(reply);
    }
    Ok(reply
        .header("x-aun-cert-consistency", "authoritative")
        .header("x-aun-cert-lifecycle-state", &got.lifecycle_state)
        .header("x-aun-cert-fingerprint", &got.fingerprint)
        .header("x-aun-cert-observed-at", &got.observed_at))
}

async fn ocsp(request: &HttpRequest<'_>, serial: &str) -> Result<Reply, RpcError> {
    let answer: Value = request.gateway.ask("ca.ocsp_query", &json!({ "serial": serial })).await?;
    Ok(json_reply(StatusCode::OK, &answer).header(CACHE_CONTROL, "no-store"))
}

/// The lists that certificates point to, in the form of RFC 5280.
async fn crl(request: &HttpRequest<'_>, of: &str) -> Result<Reply, RpcError> {
    #[derive(Deserialize)]
    struct CrlDocument {
        crl_pem: String,
    }
    let crl: CrlDocument = request.gateway.ask("ca.get_crl", &json!({ "of": of })).await?;
    let base64: String = crl.crl_pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(base64).map_err(RpcError::internal)?;
    Ok(bytes(StatusCode::OK, "application/pkix-crl", der))
}

/// Signed as a whole, so it is passed on byte by byte.
async fn trust_list(request: &HttpRequest<'_>) -> Result<Reply, RpcError> {
    let list: Box<RawValue> =
        request.gateway.mesh.call(Caller::service("gateway"), "ca.get_trust_roots", None).await?;
    let etag = format!("\"{}\"", hex::encode(digest::digest(&digest::SHA256, list.get().as_bytes())));
    Ok(text(StatusCode::OK, "application/json", list.get())
        .header(ETAG, &etag)
        .header(CACHE_CONTROL, "public, max-age=3600"))
}
