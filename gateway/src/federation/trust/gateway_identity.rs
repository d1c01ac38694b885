//! What a gateway proves to another domain that it is: a certificate of its own domain's authority, and the chain above it.

use super::PeerTrust;
use certs::{Certificate, Curve, Identity, verify_chain};
use proto_schemas::requests::ca;
use services::kernel::{Caller, Purpose, RpcError, World, codes};

/// No certificate has more authorities above it.
const CHAIN_LENGTH: usize = 4;

/// The identity of our own gateway.
pub struct GatewayIdentity {
    pub leaf: Identity,
    /// The authorities above it, without the root.
    pub chain: Vec<String>,
}

/// A gateway of another domain whose certificate was checked.
#[derive(Clone, Debug)]
pub struct PeerGateway {
    pub issuer: String,
    pub gateway_aid: String,
    pub certificate: Certificate,
}

impl GatewayIdentity {
    pub async fn open(world: &World) -> anyhow::Result<GatewayIdentity> {
        let purpose = Purpose {
            service: "gateway",
            file: "federation",
            curve: Curve::P256,
            key_purpose: None,
            dns_names: Vec::new(),
            ips: Vec::new(),
        };
        let leaf = world.identity(&purpose).await?;
        let certs = world.mesh.ask(Caller::service("gateway"), &ca::GetCertChain {}).await?.certs;
        let between = certs.len().saturating_sub(1);
        Ok(GatewayIdentity { leaf, chain: certs.into_iter().take(between).collect() })
    }
}

/// Checks that these certificates make their holder the gateway of a domain. Revocation is checked elsewhere, because the
/// other domain has to be asked.
pub fn check_gateway(
    trust: &PeerTrust,
    issuer: &str,
    gateway_aid: &str,
    cert: &str,
    chain: &[String],
    now: i64,
) -> Result<PeerGateway, RpcError> {
    if !trust.allows(issuer) {
        let sentence = format!("this domain does not federate with {issuer}");
        return Err(RpcError::new(codes::UNAUTHENTICATED, sentence).with("reason", "issuer_blocked"));
    }
    let wrong = |sentence: String| {
        RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", "certificate")
    };
    let unreadable = |error| wrong(format!("a certificate cannot be parsed: {error}"));
    let leaf = Certificate::from_pem(cert).map_err(unreadable)?;
    if gateway_aid != format!("gateway.{issuer}") || leaf.common_name() != gateway_aid {
        return Err(wrong(format!(
            "the certificate of {} does not make {gateway_aid} the gateway of {issuer}",
            leaf.common_name()
        )));
    }
    if chain.len() > CHAIN_LENGTH {
        return Err(wrong(format!("a chain has at most {CHAIN_LENGTH} certificates")));
    }
    let chain: Vec<Certificate> =
        chain.iter().map(|pem| Certificate::from_pem(pem)).collect::<Result<_, _>>().map_err(unreadable)?;
    verify_chain(&leaf, &chain, &trust.roots(), now).map_err(|error| wrong(error.to_string()))?;
    // Every trusted authority could sign this name, and only the authority of the domain may.
    let signer = chain.iter().find(|authority| {
        authority.subject_name_der() == leaf.issuer_name_der() && leaf.is_signed_by(authority.public_key())
    });
    if signer.is_none_or(|signer| signer.common_name() != issuer) {
        return Err(wrong(format!(
            "the certificate of {gateway_aid} is not signed by the authority of {issuer}"
        )));
    }
    Ok(PeerGateway { issuer: issuer.to_owned(), gateway_aid: gateway_aid.to_owned(), certificate: leaf })
}
