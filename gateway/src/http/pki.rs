//! Certificates, the chain, revocation and the list of trusted roots, as clients fetch them.

use super::reply::{Reply, bytes, json_reply, not_found, refuse, text};
use super::request::{HttpRequest, unescape};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG};
use proto_schemas::Request;
use proto_schemas::requests::ca;
use ring::digest;
use serde_json::value::{RawValue, to_value};
use services::kernel::{Caller, RpcError};

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
            let list = request.gateway.ask(&ca::GetCrl::default()).await?;
            Ok(json_reply(StatusCode::OK, &to_value(list).map_err(RpcError::internal)?))
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

async fn chain(request: &HttpRequest<'_>) -> Result<ca::IssuerCertChain, RpcError> {
    request.gateway.ask(&ca::GetCertChain {}).await
}

async fn certificate(request: &HttpRequest<'_>, aid: &str) -> Result<Reply, RpcError> {
    let authoritative = request.query("consistency") == Some("authoritative");
    let query = |name: &str| request.query(name).map(str::to_owned);
    let wanted = ca::GetCert {
        aid: Some(aid.to_owned()),
        cert_fingerprint: query("cert_fingerprint").filter(|text| !text.is_empty()),
        key_purpose: query("key_purpose"),
        consistency: query("consistency"),
        ..ca::GetCert::default()
    };
    let known = request.gateway.ask(&wanted).await?;
    let Some(cert) = known.cert else {
        return Ok(refuse(StatusCode::NOT_FOUND, "not_found", "certificate not found")
            .header(CACHE_CONTROL, "no-store"));
    };
    let reply = text(StatusCode::OK, PEM, &cert).header(CACHE_CONTROL, "no-store");
    if !authoritative {
        return Ok(reply);
    }
    Ok(reply
        .header("x-aun-cert-consistency", "authoritative")
        .header("x-aun-cert-lifecycle-state", &known.lifecycle_state.unwrap_or_default())
        .header("x-aun-cert-fingerprint", &known.fingerprint.unwrap_or_default())
        .header("x-aun-cert-observed-at", &known.observed_at.unwrap_or_default()))
}

async fn ocsp(request: &HttpRequest<'_>, serial: &str) -> Result<Reply, RpcError> {
    let answer = request.gateway.ask(&ca::OcspQuery { serial: serial.to_owned() }).await?;
    let answer = to_value(answer).map_err(RpcError::internal)?;
    Ok(json_reply(StatusCode::OK, &answer).header(CACHE_CONTROL, "no-store"))
}

/// The lists that certificates point to, in the form of RFC 5280.
async fn crl(request: &HttpRequest<'_>, of: &str) -> Result<Reply, RpcError> {
    let crl = request.gateway.ask(&ca::GetCrl { of: Some(of.to_owned()) }).await?;
    let base64: String = crl.crl_pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(base64).map_err(RpcError::internal)?;
    Ok(bytes(StatusCode::OK, "application/pkix-crl", der))
}

/// Signed as a whole, so it is passed on byte by byte.
async fn trust_list(request: &HttpRequest<'_>) -> Result<Reply, RpcError> {
    let list: Box<RawValue> =
        request.gateway.mesh.call(Caller::service("gateway"), ca::GetTrustRoots::METHOD, None).await?;
    let etag = format!("\"{}\"", hex::encode(digest::digest(&digest::SHA256, list.get().as_bytes())));
    Ok(text(StatusCode::OK, "application/json", list.get())
        .header(ETAG, &etag)
        .header(CACHE_CONTROL, "public, max-age=3600"))
}
