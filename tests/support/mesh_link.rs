//! The mesh as a process of the server sees it: a certificate of its own, and links to other processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use certs::{Authority, Certificate, Curve, Key};
use futures_util::{SinkExt, StreamExt};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::agent::random_hex;
use super::domain::TestDomain;
use super::{TestServer, now, setting, within};

/// Where other processes reach a server that is one process.
pub const MESH_PORT: u16 = 20003;

pub type TestMeshStream = TlsStream<TcpStream>;
pub type TestMeshLink = WebSocketStream<TestMeshStream>;

/// The certificate of a process, and its key.
#[derive(Clone)]
pub struct ProcessCertificate {
    pub certificate: String,
    pub key: String,
}

impl ProcessCertificate {
    /// A new one for a process that runs these services.
    pub fn issue(
        authority: &Authority,
        services: &[&str],
        not_before: i64,
        not_after: i64,
    ) -> ProcessCertificate {
        let key = Key::generate(Curve::P256);
        let names: Vec<String> = services.iter().map(|service| format!("{service}.mesh.internal")).collect();
        let issued = authority.issue_mesh(&names[0], &key.public(), &names, not_before, not_after);
        let certificate = issued.expect("it can be issued").pem().to_owned();
        ProcessCertificate { certificate, key: key.to_pem() }
    }

    /// The one in a folder that `aund certs mesh` made.
    pub fn read(folder: &Path, service: &str) -> ProcessCertificate {
        let read =
            |end: &str| fs::read_to_string(folder.join(format!("{service}.{end}"))).expect("it was made");
        ProcessCertificate { certificate: read("crt"), key: read("key") }
    }

    pub fn write(&self, folder: &Path, name: &str) {
        for (end, text) in [("crt", &self.certificate), ("key", &self.key)] {
            fs::write(folder.join(format!("{name}.{end}")), text).expect("a file can be written");
        }
    }
}

impl TestDomain {
    /// The settings of its server that let other processes call it, where it is one process.
    pub fn mesh_settings(&self) -> String {
        let redis = setting("AUND_TEST_REDIS_URL").expect("AUND_TEST_REDIS_URL says where Redis is");
        format!(
            "bus.url = \"{redis}?prefix=mesh-{}\"\nmesh.listen = \"{}:{MESH_PORT}\"\n\
             mesh.cert = \"mesh/all.crt\"\nmesh.key = \"mesh/all.key\"\nmesh.authority = \"mesh/authority.crt\"\n",
            random_hex(8),
            self.address
        )
    }
}

impl TestServer {
    /// The certificates for that, in the folder `mesh`: one for the server, which is every service, and one for each service that
    /// calls it.
    pub fn make_mesh(&self) {
        let folder = self.beside("mesh");
        fs::create_dir(&folder).expect("a folder can be made");
        let authority = Authority::mesh("mesh.internal", "aund mesh", now());
        let issue = |services: &[&str], name: &str| {
            ProcessCertificate::issue(&authority, services, now() - 60, now() + 86_400).write(&folder, name);
        };
        fs::write(folder.join("authority.crt"), authority.certificate().pem())
            .expect("a file can be written");
        let namespaces = proto_schemas::namespaces().iter();
        let services: BTreeSet<&str> = namespaces.map(|namespace| namespace.service).collect();
        let all: Vec<&str> = services.into_iter().collect();
        issue(&all, "all");
        for service in all {
            issue(&[service], service);
        }
    }
}

/// A connection to the process of a service at an address, by a process with this certificate or with none.
pub async fn mesh_tls(
    address: &str,
    service: &str,
    authority: &Certificate,
    own: Option<&ProcessCertificate>,
) -> std::io::Result<TestMeshStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.der().to_vec())).expect("a root can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS")
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(ProcessCertificate { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            config.with_client_auth_cert(chain, key).expect("they fit each other")
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(format!("{service}.mesh.internal")).expect("a name for TLS");
    within("a TLS handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

/// A link, if the process lets us have one.
pub async fn mesh_link(
    address: &str,
    service: &str,
    authority: &Certificate,
    own: Option<&ProcessCertificate>,
) -> Result<TestMeshLink, String> {
    let stream = mesh_tls(address, service, authority, own).await.map_err(|error| error.to_string())?;
    let url = format!("wss://{service}.mesh.internal/mesh");
    let dial = within("an upgrade or a refusal", client_async(url.as_str(), stream)).await;
    dial.map(|(link, _)| link).map_err(|error| error.to_string())
}

/// Calls a method in the name of a service: the result, or the error.
pub async fn mesh_call(
    link: &mut TestMeshLink,
    service: &str,
    method: &str,
    params: &Value,
) -> Result<Value, Value> {
    let call = json!([1, { "service": service }, 30_000, method, params]);
    let frame = json!({ "jsonrpc": "2.0", "method": "mesh.calls", "params": [call] });
    link.send(Message::text(frame.to_string())).await.expect("the process reads");
    loop {
        match within("an answer", link.next()).await {
            Some(Ok(Message::Text(text))) => {
                let frame: Value = serde_json::from_str(&text).expect("a frame is JSON");
                assert_eq!((&frame["method"], &frame["params"][0][0]), (&json!("mesh.answers"), &json!(1)));
                let answer = &frame["params"][0];
                return match answer.get(2).filter(|error| !error.is_null()) {
                    Some(error) => Err(error.clone()),
                    None => Ok(answer[1].clone()),
                };
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            ended => panic!("{method}: the link ended instead of an answer: {ended:?}"),
        }
    }
}
