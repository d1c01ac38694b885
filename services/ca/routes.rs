//! Certificates, the chain, revocation and the list of trusted roots, as clients fetch them. What is plain JSON is declared
//! in the schema of its method instead: `/pki/crl.json`.

use super::CaService;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::http::{json_text, refuse, with_header};
use kernel::{Caller, RpcError, sha256_hex};
use proto_schemas::requests::ca::{
    CrlSigner, GetCert, GetCertChain, GetCrl, GetTrustRoots, KnownCertificate, OcspQuery,
};
use serde::Deserialize;
use std::sync::Arc;

const PEM: &str = "application/x-pem-file";
const CRL: &str = "application/pkix-crl";
const OCSP: &str = "application/ocsp-response";

pub(super) fn routes(ca: Arc<CaService>) -> Router {
    let lists = [("issuer", CrlSigner::Issuer), ("registry", CrlSigner::Registry), ("root", CrlSigner::Root)];
    let mut router = Router::new();
    for (name, of) in lists {
        let list = move |State(ca): State<Arc<CaService>>, caller: Caller| crl(ca, caller, of);
        router = router.route(&format!("/pki/{name}.crl"), get(list));
    }
    for path in ["/pki/chain", "/ca/cert"] {
        router = router.route(path, get(chain));
    }
    // The second of each is for the host `pki.`; some clients know the list by older names.
    for path in ["/pki/root.crt", "/root.crt"] {
        router = router.route(path, get(root));
    }
    for path in ["/pki/trust-roots.json", "/pki/trust-roots", "/pki/trust-root.json", "/trust-root.json"] {
        router = router.route(path, get(trust_roots));
    }
    router
        .route("/pki/cert/{aid}", get(certificate))
        .route("/pki/ocsp", post(ocsp))
        .route("/pki/ocsp/{*asked}", get(ocsp_by_path))
        .with_state(ca)
}

async fn chain(State(ca): State<Arc<CaService>>, caller: Caller) -> Result<Response, RpcError> {
    let chain = ca.get_cert_chain(caller, GetCertChain {}).await?;
    Ok(document(PEM, chain.chain))
}

async fn root(State(ca): State<Arc<CaService>>, caller: Caller) -> Result<Response, RpcError> {
    let mut chain = ca.get_cert_chain(caller, GetCertChain {}).await?;
    Ok(document(PEM, chain.certs.pop().unwrap_or_default()))
}

#[derive(Deserialize)]
struct CertQuery {
    cert_fingerprint: Option<String>,
    key_purpose: Option<String>,
    consistency: Option<String>,
}

async fn certificate(
    State(ca): State<Arc<CaService>>,
    caller: Caller,
    Path(aid): Path<String>,
    Query(query): Query<CertQuery>,
) -> Result<Response, RpcError> {
    let authoritative = query.consistency.as_deref() == Some("authoritative");
    let wanted = GetCert {
        aid: Some(aid),
        cert_fingerprint: query.cert_fingerprint.filter(|text| !text.is_empty()),
        key_purpose: query.key_purpose,
        consistency: query.consistency,
        ..GetCert::default()
    };
    let known = ca.get_cert(caller, wanted).await?;
    let KnownCertificate { cert: Some(cert), lifecycle_state, fingerprint, observed_at, .. } = known else {
        let refused = refuse(StatusCode::NOT_FOUND, "not_found", "certificate not found");
        return Ok(with_header(refused, CACHE_CONTROL, "no-store"));
    };
    let response = with_header(document(PEM, cert), CACHE_CONTROL, "no-store");
    if !authoritative {
        return Ok(response);
    }
    let observed = [
        ("x-aun-cert-consistency", Some("authoritative".to_owned())),
        ("x-aun-cert-lifecycle-state", lifecycle_state),
        ("x-aun-cert-fingerprint", fingerprint),
        ("x-aun-cert-observed-at", observed_at),
    ];
    Ok(observed.into_iter().fold(response, |response, (name, value)| {
        with_header(response, HeaderName::from_static(name), &value.unwrap_or_default())
    }))
}

/// The lists that certificates point to, in the form of RFC 5280.
async fn crl(ca: Arc<CaService>, caller: Caller, of: CrlSigner) -> Result<Response, RpcError> {
    let crl = ca.get_crl(caller, GetCrl { of: Some(of) }).await?;
    let base64: String = crl.crl_pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(base64).map_err(RpcError::internal)?;
    Ok(document(CRL, der))
}

/// The responder that certificates name (RFC 6960).
async fn ocsp(State(ca): State<Arc<CaService>>, request: Bytes) -> Response {
    ocsp_response(ca.answer_ocsp(&request).await)
}

/// Two things are asked below one path: SDKs write a serial number there, and clients of RFC 6960 a whole request in base64,
/// which may have slashes. The DER of a request begins with 0x30, so its base64 with an M, and no serial number does.
async fn ocsp_by_path(
    State(ca): State<Arc<CaService>>,
    caller: Caller,
    Path(asked): Path<String>,
) -> Result<Response, RpcError> {
    if asked.starts_with('M') {
        let request = STANDARD.decode(&asked).unwrap_or_default();
        return Ok(ocsp_response(ca.answer_ocsp(&request).await));
    }
    let answer = ca.ocsp_query(caller, OcspQuery { serial: asked }).await?;
    let json = serde_json::to_string(&answer).map_err(RpcError::internal)?;
    Ok(with_header(json_text(StatusCode::OK, json), CACHE_CONTROL, "no-store"))
}

/// A revocation counts at once, so no answer is kept.
fn ocsp_response(der: Vec<u8>) -> Response {
    with_header(document(OCSP, der), CACHE_CONTROL, "no-store")
}

/// Signed as a whole, so it is passed on byte by byte.
async fn trust_roots(State(ca): State<Arc<CaService>>, caller: Caller) -> Result<Response, RpcError> {
    let list = ca.get_trust_roots(caller, GetTrustRoots {}).await?;
    let etag = format!("\"{}\"", sha256_hex(list.get()));
    let response = with_header(json_text(StatusCode::OK, list.get()), ETAG, &etag);
    Ok(with_header(response, CACHE_CONTROL, "public, max-age=3600"))
}

fn document(kind: &'static str, body: impl IntoResponse) -> Response {
    with_header(body.into_response(), CONTENT_TYPE, kind)
}
