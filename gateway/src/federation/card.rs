//! Who a gateway is to another domain: a certificate of its own domain's authority, and the chain above it.

use super::trust::Trust;
use certs::{Certificate, Curve, Identity, verify_chain};
use serde::Deserialize;
use serde_json::json;
use services::kernel::{Caller, Purpose, RpcError, World, codes};

/// Nobody has more authorities above it, so nobody needs to send more.
const LONGEST_CHAIN: usize = 4;

/// What we show of ourselves.
pub struct Card {
    pub identity: Identity,
    /// The authorities above it, without the root.
    pub chain: Vec<String>,
}

/// Somebody whose certificate was found good.
#[derive(Clone, Debug)]
pub struct Peer {
    pub issuer: String,
    pub gateway_aid: String,
    pub certificate: Certificate,
}

impl Card {
    pub async fn open(world: &World) -> anyhow::Result<Card> {
        #[derive(Deserialize)]
        struct Chain {
            certs: Vec<String>,
        }
        let purpose = Purpose {
            service: "gateway",
            file: "federation",
            curve: Curve::P256,
            dns_names: Vec::new(),
            ips: Vec::new(),
        };
        let identity = world.identity(&purpose).await?;
        let Chain { certs } =
            world.mesh.ask(Caller::service("gateway"), "ca.get_cert_chain", &json!({})).await?;
        let between = certs.len().saturating_sub(1);
        Ok(Card { identity, chain: certs.into_iter().take(between).collect() })
    }
}

/// Whether these certificates make somebody the gateway of a domain. Revocation is asked about elsewhere: it takes time.
pub fn check(
    trust: &Trust,
    issuer: &str,
    gateway_aid: &str,
    cert: &str,
    chain: &[String],
    now: i64,
) -> Result<Peer, RpcError> {
    if !trust.allows(issuer) {
        let sentence = format!("this domain does not deal with {issuer}");
        return Err(RpcError::new(codes::UNAUTHENTICATED, sentence).with("reason", "issuer_blocked"));
    }
    let wrong = |sentence: String| {
        RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", "certificate")
    };
    let unreadable = |error| wrong(format!("a certificate cannot be read: {error}"));
    let leaf = Certificate::from_pem(cert).map_err(unreadable)?;
    if gateway_aid != format!("gateway.{issuer}") || leaf.common_name() != gateway_aid {
        return Err(wrong(format!(
            "the certificate of {} does not make {gateway_aid} the gateway of {issuer}",
            leaf.common_name()
        )));
    }
    if chain.len() > LONGEST_CHAIN {
        return Err(wrong(format!("a chain has at most {LONGEST_CHAIN} certificates")));
    }
    let chain: Vec<Certificate> =
        chain.iter().map(|pem| Certificate::from_pem(pem)).collect::<Result<_, _>>().map_err(unreadable)?;
    verify_chain(&leaf, &chain, &trust.roots(), now).map_err(|error| wrong(error.to_string()))?;
    // Any trusted authority could sign the name; only the domain's own may.
    let signer = chain.iter().find(|authority| {
        authority.subject_name_der() == leaf.issuer_name_der() && leaf.is_signed_by(authority.public_key())
    });
    if signer.is_none_or(|signer| signer.common_name() != issuer) {
        return Err(wrong(format!("the authority that vouches for {gateway_aid} is not that of {issuer}")));
    }
    Ok(Peer { issuer: issuer.to_owned(), gateway_aid: gateway_aid.to_owned(), certificate: leaf })
}
