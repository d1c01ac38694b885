//! The methods of the `ca` service that a gateway calls, answered by a test authority.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::dev::Pki;
use certs::{PublicKey, Urls};
use kernel::{Caller, Methods, Rpc, RpcError};
use parking_lot::Mutex;
use proto_schemas::requests::ca;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longer than a link may last.
const VALID_SECONDS: i64 = 30 * 24 * 3600;

pub struct TestCa {
    pub pki: Pki,
    pub trusted: Mutex<Vec<String>>,
    /// What the roots are trusted for; every domain if nothing is said.
    pub domains: Mutex<Option<Vec<String>>>,
    /// The keys of other domains' authorities.
    pub pins: Mutex<BTreeMap<String, String>>,
}

impl TestCa {
    pub fn new(domain: &str) -> Arc<TestCa> {
        let pki = Pki::new(domain, now());
        let (trusted, domains, pins) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(TestCa { pki, trusted, domains, pins })
    }

    pub fn methods(self: &Arc<TestCa>) -> Methods {
        Rpc::new(self.clone())
            .method(TestCa::get_cert_chain)
            .method(TestCa::get_issuer_pins)
            .method(TestCa::get_trust_roots)
            .method(TestCa::issue_service_cert)
            .method(TestCa::pin_issuer)
            .into()
    }

    pub fn chain(&self) -> Vec<String> {
        let above = [&self.pki.issuer, &self.pki.registry, &self.pki.root];
        above.map(|authority| authority.certificate().pem().to_owned()).to_vec()
    }

    async fn get_cert_chain(
        self: Arc<TestCa>,
        _: Caller,
        _: ca::GetCertChain,
    ) -> Result<ca::IssuerCertChain, RpcError> {
        Ok(ca::IssuerCertChain { chain: self.chain().concat(), certs: self.chain() })
    }

    async fn get_trust_roots(
        self: Arc<TestCa>,
        _: Caller,
        _: ca::GetTrustRoots,
    ) -> Result<ca::TrustList, RpcError> {
        let domains = self.domains.lock().clone();
        let entry = |pem: &String| ca::ListedRoot {
            certificate: pem.clone(),
            domains: domains.clone(),
            status: "active".to_owned(),
            ..ca::ListedRoot::default()
        };
        let root_cas = self.trusted.lock().iter().map(entry).collect();
        Ok(ca::TrustList { root_cas, ..ca::TrustList::default() })
    }

    async fn get_issuer_pins(
        self: Arc<TestCa>,
        _: Caller,
        _: ca::GetIssuerPins,
    ) -> Result<ca::IssuerPins, RpcError> {
        let pins = self.pins.lock().clone().into_iter();
        let listed = |(domain, spki_fingerprint)| ca::ListedPin { domain, spki_fingerprint, seen_at: 0 };
        Ok(ca::IssuerPins { pins: pins.map(listed).collect() })
    }

    async fn pin_issuer(
        self: Arc<TestCa>,
        _: Caller,
        pin: ca::PinIssuer,
    ) -> Result<ca::PinnedIssuer, RpcError> {
        let mut pins = self.pins.lock();
        let counts = pins.entry(pin.domain.clone()).or_insert(pin.spki_fingerprint).clone();
        Ok(ca::PinnedIssuer { domain: pin.domain, spki_fingerprint: counts })
    }

    async fn issue_service_cert(
        self: Arc<TestCa>,
        _: Caller,
        params: ca::IssueServiceCert,
    ) -> Result<ca::IssuedCertificate, RpcError> {
        let spki = STANDARD.decode(&params.public_key).unwrap();
        let key = PublicKey::from_spki_der(&spki).unwrap();
        let cert = self.leaf(&params.name, &key, &[]).pem().to_owned();
        Ok(ca::IssuedCertificate { cert, ..ca::IssuedCertificate::default() })
    }

    pub fn leaf(&self, name: &str, key: &PublicKey, dns_names: &[String]) -> certs::Certificate {
        let url = |path: &str| format!("http://x.example/{path}");
        let urls = Urls { crl: url("crl"), ocsp: url("ocsp"), ca_issuers: url("ca") };
        let (from, until) = (now() - 60, now() + VALID_SECONDS);
        self.pki.issuer.issue_service(name, key, dns_names, &[], &urls, from, until).unwrap()
    }
}

fn now() -> i64 {
    kernel::Clock::System.now_seconds()
}
