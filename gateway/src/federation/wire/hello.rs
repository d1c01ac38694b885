//! `federation.hello`: two gateways prove to each other which domain they are of, before anything is relayed.
//!
//! Each signs both nonces and its certificate, and the welcome both certificates, so that neither can be replayed on another
//! link.

use crate::federation::errors::quoted;
use crate::federation::trust::{GatewayIdentity, PeerGateway, PeerTrust, check_gateway};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, canonical_json};
use kernel::{RpcError, codes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub const VERSION: &str = "1.0";
/// How much the clocks of two domains may differ.
const WINDOW_MS: u64 = 300_000;
const HELLO: &str = "AUN-FED-HELLO-v1\n";
const WELCOME: &str = "AUN-FED-WELCOME-v1\n";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelloParams {
    pub version: String,
    pub from_issuer: String,
    pub to_issuer: String,
    pub gateway_aid: String,
    pub cert: String,
    pub chain: Vec<String>,
    pub server_nonce: String,
    pub client_nonce: String,
    pub timestamp: i64,
    #[serde(default)]
    pub features: Value,
    pub signature: String,
}

/// The answer to a hello.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    pub status: String,
    pub version: String,
    pub issuer: String,
    pub gateway_aid: String,
    pub cert: String,
    pub chain: Vec<String>,
    pub session_id: String,
    pub timestamp: i64,
    pub client_nonce: String,
    #[serde(default)]
    pub namespaces: Vec<String>,
    #[serde(default)]
    pub limits: LinkLimits,
    pub signature: String,
}

/// What the answering gateway accepts on this link. Hints for the sender; it enforces its own limits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkLimits {
    pub max_frame_bytes: usize,
    pub max_batch_items: usize,
    pub max_inflight: usize,
    pub relay_timeout_ms: u64,
}

impl Default for LinkLimits {
    fn default() -> LinkLimits {
        LinkLimits {
            max_frame_bytes: 1 << 20,
            max_batch_items: 200,
            max_inflight: 512,
            relay_timeout_ms: 25_000,
        }
    }
}

impl HelloParams {
    /// Our hello on a socket whose challenge had this nonce.
    pub fn new(
        own: &GatewayIdentity,
        from: &str,
        to: &str,
        server_nonce: &str,
        client_nonce: String,
        now: i64,
    ) -> HelloParams {
        let mut hello = HelloParams {
            version: VERSION.to_owned(),
            from_issuer: from.to_owned(),
            to_issuer: to.to_owned(),
            gateway_aid: format!("gateway.{from}"),
            cert: own.leaf.certificate().pem().to_owned(),
            chain: own.chain.clone(),
            server_nonce: server_nonce.to_owned(),
            client_nonce,
            timestamp: now,
            features: json!({ "batch": true, "events": true }),
            signature: String::new(),
        };
        hello.signature = STANDARD.encode(own.leaf.sign(&hello.signed(own.leaf.certificate())));
        hello
    }

    /// Which gateway sent it. The nonce is that of this socket's challenge, and the time is ours.
    #[cfg(test)]
    pub fn check(
        &self,
        trust: &PeerTrust,
        ours: &str,
        server_nonce: &str,
        now: i64,
    ) -> Result<PeerGateway, RpcError> {
        self.check_claims(ours, server_nonce, now)?;
        self.check_proof(trust, now)
    }

    /// Whether it is meant for us and this socket, now: all that can be known without parsing a certificate.
    pub fn check_claims(&self, ours: &str, server_nonce: &str, now: i64) -> Result<(), RpcError> {
        check_version(&self.version)?;
        let refuse = |reason: &str, sentence: String| {
            Err(RpcError::new(codes::UNAUTHENTICATED, sentence).with("reason", reason))
        };
        if self.to_issuer != ours {
            return refuse(
                "to_issuer",
                format!("this is the gateway of {ours}, not of {:?}", quoted(&self.to_issuer)),
            );
        }
        if self.from_issuer == ours {
            return refuse("from_issuer", format!("{ours} does not federate with itself"));
        }
        if self.server_nonce != server_nonce {
            return Err(bad_nonce("server_nonce is not the one of this socket's challenge"));
        }
        check_nonce(&self.client_nonce)?;
        check_time(self.timestamp, now)
    }

    /// Which gateway sent it: its certificates, and then its signature.
    pub fn check_proof(&self, trust: &PeerTrust, now: i64) -> Result<PeerGateway, RpcError> {
        let peer =
            check_gateway(trust, &self.from_issuer, &self.gateway_aid, &self.cert, &self.chain, now / 1000)?;
        check_signature(&peer, &self.signed(&peer.certificate), &self.signature)?;
        Ok(peer)
    }

    fn signed(&self, certificate: &Certificate) -> Vec<u8> {
        text(
            HELLO,
            &json!({
                "cert_fp": fingerprint(certificate),
                "client_nonce": self.client_nonce,
                "from_issuer": self.from_issuer,
                "gateway_aid": self.gateway_aid,
                "server_nonce": self.server_nonce,
                "timestamp": self.timestamp,
                "to_issuer": self.to_issuer,
                "version": self.version,
            }),
        )
    }
}

impl Welcome {
    pub fn new(
        own: &GatewayIdentity,
        hello: &HelloParams,
        peer: &PeerGateway,
        session_id: String,
        namespaces: &[String],
        limits: LinkLimits,
        now: i64,
    ) -> Welcome {
        let mut welcome = Welcome {
            status: "ok".to_owned(),
            version: VERSION.to_owned(),
            issuer: hello.to_issuer.clone(),
            gateway_aid: format!("gateway.{}", hello.to_issuer),
            cert: own.leaf.certificate().pem().to_owned(),
            chain: own.chain.clone(),
            session_id,
            timestamp: now,
            client_nonce: hello.client_nonce.clone(),
            namespaces: namespaces.to_vec(),
            limits,
            signature: String::new(),
        };
        let signed = welcome.signed(hello, own.leaf.certificate(), &peer.certificate);
        welcome.signature = STANDARD.encode(own.leaf.sign(&signed));
        welcome
    }

    /// Which gateway answered our hello.
    pub fn check(
        &self,
        trust: &PeerTrust,
        own: &GatewayIdentity,
        hello: &HelloParams,
        now: i64,
    ) -> Result<PeerGateway, RpcError> {
        check_version(&self.version)?;
        if self.issuer != hello.to_issuer {
            let sentence =
                format!("the welcome is from {:?}, not from {}", quoted(&self.issuer), hello.to_issuer);
            return Err(RpcError::new(codes::UNAUTHENTICATED, sentence).with("reason", "issuer"));
        }
        if self.client_nonce != hello.client_nonce {
            return Err(bad_nonce("client_nonce is not the one we sent"));
        }
        check_time(self.timestamp, now)?;
        let peer =
            check_gateway(trust, &self.issuer, &self.gateway_aid, &self.cert, &self.chain, now / 1000)?;
        let signed = self.signed(hello, &peer.certificate, own.leaf.certificate());
        check_signature(&peer, &signed, &self.signature)?;
        Ok(peer)
    }

    fn signed(&self, hello: &HelloParams, own: &Certificate, peer: &Certificate) -> Vec<u8> {
        text(
            WELCOME,
            &json!({
                "cert_fp": fingerprint(own),
                "client_nonce": self.client_nonce,
                "from_issuer": hello.from_issuer,
                "gateway_aid": self.gateway_aid,
                "peer_cert_fp": fingerprint(peer),
                "server_nonce": hello.server_nonce,
                "session_id": self.session_id,
                "timestamp": self.timestamp,
                "to_issuer": hello.to_issuer,
                "version": self.version,
            }),
        )
    }
}

fn text(label: &str, members: &Value) -> Vec<u8> {
    [label.as_bytes(), &canonical_json(members)].concat()
}

fn fingerprint(certificate: &Certificate) -> &str {
    certificate.fingerprint().trim_start_matches("sha256:")
}

fn check_version(version: &str) -> Result<(), RpcError> {
    if version == VERSION {
        return Ok(());
    }
    let sentence = format!("federation version must be {VERSION}, not {:?}", quoted(version));
    Err(RpcError::new(codes::VERSION_MISMATCH, sentence)
        .with("server_range", json!({ "min": VERSION, "max": VERSION })))
}

fn check_nonce(nonce: &str) -> Result<(), RpcError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'=');
    if (22..=64).contains(&nonce.len()) && nonce.bytes().all(plain) {
        return Ok(());
    }
    Err(bad_nonce("client_nonce must be 16 to 48 bytes in base64url"))
}

fn check_time(timestamp: i64, now: i64) -> Result<(), RpcError> {
    if timestamp.abs_diff(now) <= WINDOW_MS {
        return Ok(());
    }
    let sentence = "timestamp must be within 300 seconds of this gateway's clock";
    Err(RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", "timestamp"))
}

fn check_signature(peer: &PeerGateway, signed: &[u8], signature: &str) -> Result<(), RpcError> {
    let bytes = STANDARD.decode(signature).unwrap_or_default();
    if peer.certificate.public_key().verify(signed, &bytes) {
        return Ok(());
    }
    let sentence = format!("the signature is not that of {}", peer.gateway_aid);
    Err(RpcError::new(codes::SIGNATURE_INVALID, sentence).with("reason", "signature"))
}

pub fn bad_nonce(sentence: &str) -> RpcError {
    RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", "nonce")
}
