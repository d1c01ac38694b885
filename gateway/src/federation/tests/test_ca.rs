//! The methods of the `ca` service that a gateway calls, answered by a test authority.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::dev::Pki;
use certs::{PublicKey, Urls};
use parking_lot::Mutex;
use proto_schemas::requests::ca;
use services::kernel::{Caller, Methods, Rpc, RpcError};
use std::sync::Arc;

/// Longer than a link may last.
const VALID_SECONDS: i64 = 30 * 24 * 3600;

pub struct TestCa {
    pub pki: Pki,
    pub trusted: Mutex<Vec<String>>,
}

impl TestCa {
    pub fn new(domain: &str) -> Arc<TestCa> {
        Arc::new(TestCa { pki: Pki::new(domain, now()), trusted: Mutex::default() })
    }

    pub fn methods(self: &Arc<TestCa>) -> Methods {
        Rpc::new(self.clone())
            .method("ca.get_cert_chain", TestCa::get_cert_chain)
            .method("ca.get_trust_roots", TestCa::get_trust_roots)
            .method("ca.issue_service_cert", TestCa::issue_service_cert)
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
        let entry = |pem: &String| ca::ListedRoot {
            certificate: pem.clone(),
            status: "active".to_owned(),
            ..ca::ListedRoot::default()
        };
        let root_cas = self.trusted.lock().iter().map(entry).collect();
        Ok(ca::TrustList { root_cas, ..ca::TrustList::default() })
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
    services::kernel::Clock::System.now_seconds()
}
