//! A peer that is the test: it has the real keys of a real domain, and sends what the test wants.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::dev::Pki;
use certs::{Authority, Certificate, Curve, Identity, Key, Urls, canonical_json};
use serde_json::{Value, json};

use crate::support::agent::random_hex;
use crate::support::socket::TestSocket;
use crate::support::{TestServer, now, now_ms};

pub const DAY: i64 = 86_400;

/// A domain's name, its gateway's key and certificate, and the certificates above that.
#[derive(Clone)]
pub struct FakePeer {
    pub issuer: String,
    pub key: Key,
    pub cert: Certificate,
    pub chain: Vec<String>,
}

impl FakePeer {
    /// The gateway of a domain that runs, with the very key that its server uses.
    pub fn of(server: &TestServer) -> FakePeer {
        let read = |folder: &std::path::Path, name: &str| {
            fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let gateway = server.gateway_data().join("pki/gateway");
        let identity =
            Identity::from_pem(&read(&gateway, "federation.crt"), &read(&gateway, "federation.key"))
                .expect("the identity of the gateway");
        let pki = server.data().join("pki");
        FakePeer {
            issuer: server.issuer.clone(),
            key: identity.key().clone(),
            cert: identity.certificate().clone(),
            chain: ["ca/issuer.crt", "registry/registry.crt"].map(|name| read(&pki, name)).to_vec(),
        }
    }

    /// The gateway of a domain that nobody runs, under a root of the test's own.
    pub fn under(pki: &Pki, issuer: &str) -> FakePeer {
        FakePeer::vouched_by(&pki.issuer, &chain(pki), issuer, now() - DAY, now() + DAY)
    }

    /// Whatever an authority can be made to say about the gateway of a domain.
    pub fn vouched_by(signer: &Authority, chain: &[String], issuer: &str, from: i64, until: i64) -> FakePeer {
        let key = Key::generate(Curve::P256);
        let urls = Urls {
            ca_issuers: format!("http://{issuer}/ca/cert"),
            ocsp: format!("http://{issuer}/pki/ocsp"),
            crl: format!("http://{issuer}/pki/issuer.crl"),
        };
        let cert = signer
            .issue_service(&format!("gateway.{issuer}"), &key.public(), &[], &[], &urls, from, until)
            .expect("an authority signs what its owner wants");
        FakePeer { issuer: issuer.to_owned(), key, cert, chain: chain.to_vec() }
    }

    /// A good hello to a domain, for a socket whose challenge brought this nonce.
    pub fn hello(&self, to: &str, nonce: &str) -> Value {
        self.signed(json!({
            "version": "1.0", "from_issuer": self.issuer, "to_issuer": to,
            "gateway_aid": format!("gateway.{}", self.issuer), "cert": self.cert.pem(), "chain": self.chain,
            "server_nonce": nonce, "client_nonce": random_hex(16), "timestamp": now_ms(),
            "features": { "batch": true, "events": true },
        }))
    }

    /// Signs a hello as it stands, whatever it says.
    pub fn signed(&self, mut hello: Value) -> Value {
        let mut members = json!({ "cert_fp": self.cert.fingerprint().trim_start_matches("sha256:") });
        for name in [
            "client_nonce",
            "from_issuer",
            "gateway_aid",
            "server_nonce",
            "timestamp",
            "to_issuer",
            "version",
        ] {
            members[name] = hello[name].clone();
        }
        let text = [b"AUN-FED-HELLO-v1\n".as_slice(), &canonical_json(&members)].concat();
        hello["signature"] = json!(STANDARD.encode(self.key.sign(&text)));
        hello
    }

    /// A link on which both sides have proved whose they are.
    pub async fn link(&self, to: &TestServer) -> TestSocket {
        let socket = to.tls_socket("/aun").await;
        let welcome = socket.call("federation.hello", &self.hello(&to.issuer, socket.nonce())).await;
        assert_eq!((&welcome["status"], &welcome["issuer"]), (&json!("ok"), &json!(to.issuer)), "{welcome}");
        socket
    }

    /// An honest relay of a message by an agent of this domain.
    pub fn message(&self, from: &str, to: &str, words: &str) -> Value {
        json!({
            "relay_id": random_hex(16), "kind": "rpc", "namespace": "message", "method": "send",
            "caller": { "type": "aid", "aid": format!("{from}.{}", self.issuer), "device_id": "d1", "slot_id": "s1" },
            "params": { "to": to, "message_id": random_hex(8), "payload": { "type": "text", "text": words } },
            "hop": 1, "depth": 0, "deadline_ms": 15000,
        })
    }
}

/// What stands above the leaves of a PKI, without its root.
pub fn chain(pki: &Pki) -> Vec<String> {
    [&pki.issuer, &pki.registry].map(|authority| authority.certificate().pem().to_owned()).to_vec()
}
