//! What a gateway proves to another domain that it is: a certificate of its own domain's authority, and the chain above it.

use super::blocked::is_blocked;
use super::{PeerTrust, other_key};
use crate::federation::errors::quoted;
use certs::{Certificate, Curve, Identity, is_domain, verified_path};
use kernel::{Caller, Purpose, RpcError, World, codes};
use proto_schemas::requests::ca;

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
    /// The authority of its domain, which signed the certificate.
    pub authority: Certificate,
    /// The digits of the fingerprint of the root above.
    pub root: String,
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

/// Checks that these certificates make their holder the gateway of a domain: under a root that is trusted for this domain, by
/// the key that its authority had before. Revocation is checked elsewhere, because the other domain has to be asked.
pub fn check_gateway(
    trust: &PeerTrust,
    issuer: &str,
    gateway_aid: &str,
    cert: &str,
    chain: &[String],
    now: i64,
) -> Result<PeerGateway, RpcError> {
    let wrong = |sentence: String| {
        RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", "certificate")
    };
    // Another spelling of a name would be another name to every list.
    if !is_domain(issuer) {
        return Err(wrong(format!("{:?} is not a domain", quoted(issuer))));
    }
    let blocked = || {
        let sentence = format!("this domain does not federate with {issuer}");
        RpcError::new(codes::UNAUTHENTICATED, sentence).with("reason", "issuer_blocked")
    };
    if !trust.allows(issuer) {
        return Err(blocked());
    }
    // Before anything is parsed: most who claim what is not theirs are refused here.
    let roots = trust.roots_for(issuer);
    if roots.is_empty() {
        return Err(wrong(format!("no root is trusted for {issuer}")));
    }
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
    let path = verified_path(&leaf, &chain, &roots, now).map_err(|error| wrong(error.to_string()))?;
    // Every authority below the root could sign this name, and only the authority of the domain may.
    let (Some(signer), Some(root)) = (path.first(), path.last()) else {
        return Err(wrong("the chain is empty".to_owned()));
    };
    if signer.common_name() != issuer || !leaf.is_signed_by(signer.public_key()) {
        return Err(wrong(format!(
            "the certificate of {gateway_aid} is not signed by the authority of {issuer}"
        )));
    }
    let keys = trust.blocked_keys();
    if !keys.is_empty() && (is_blocked(&keys, &leaf) || path.iter().any(|above| is_blocked(&keys, above))) {
        return Err(blocked());
    }
    if trust.pinned(issuer).is_some_and(|pinned| pinned != signer.public_key().fingerprint()) {
        return Err(other_key(issuer));
    }
    let authority = Certificate::clone(signer);
    let root = root.fingerprint().trim_start_matches("sha256:").to_owned();
    let (issuer, gateway_aid) = (issuer.to_owned(), gateway_aid.to_owned());
    Ok(PeerGateway { issuer, gateway_aid, certificate: leaf, authority, root })
}
