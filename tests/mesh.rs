//! The links between processes: who is let onto them, and whom he may speak for. One process with the authority's room
//! answers; everybody else is played here.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use certs::{Authority, Curve, Key};
use futures_util::{SinkExt, StreamExt};
use jsonrpsee_core::client::{ClientT, Error};
use jsonrpsee_core::params::ObjectParams;
use jsonrpsee_ws_client::WsClientBuilder;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::world::agent::random_hex;
use crate::world::{ISSUER, aund, now, printed, setting, within};

/// A process that runs the ca room for others, and the authority of its mesh.
struct Mesh {
    folder: TempDir,
    process: Child,
    address: String,
    authority: Authority,
}

/// What a process shows of itself.
#[derive(Clone)]
struct Pass {
    certificate: String,
    key: String,
}

type Link = WebSocketStream<TlsStream<TcpStream>>;

impl Mesh {
    fn start() -> Mesh {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let made = aund(&["certs", "mesh", "mesh", "ca", "gateway", "agent"], folder.path());
        assert!(made.status.success(), "{}", printed(&made.stderr));
        let redis = setting("AUND_TEST_REDIS_URL").expect("AUND_TEST_REDIS_URL says where Redis is");
        let settings = format!(
            "issuer = \"{ISSUER}\"\nbus.url = \"{redis}?prefix=mesh-{}\"\n[mesh]\nlisten = \"127.0.0.1:0\"\n\
             cert = \"mesh/ca.crt\"\nkey = \"mesh/ca.key\"\nauthority = \"mesh/authority.crt\"\n",
            random_hex(8)
        );
        fs::write(folder.path().join("ca.toml"), settings).expect("a file can be written");
        let mut process = Command::new(env!("CARGO_BIN_EXE_aund"))
            .args(["serve", "--only", "ca", "--config", "ca.toml", "--data", "data"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.path().join("log")).expect("a log can be kept"))
            .spawn()
            .expect("aund can be started");
        let mut banner = BufReader::new(process.stdout.take().expect("stdout is a pipe")).lines();
        let address = banner.find_map(|line| Some(line.ok()?.split_once("wss://")?.1.to_owned()));
        let address = address.expect("it says where the mesh is");
        let read = |name: &str| fs::read_to_string(folder.path().join("mesh").join(name)).expect("a file");
        let authority = Authority::from_pem(&read("authority.crt"), &read("authority.key"));
        Mesh { authority: authority.expect("an authority"), folder, process, address }
    }

    /// The certificate that was made for a part.
    fn pass(&self, part: &str) -> Pass {
        let read = |end: &str| {
            let file = self.folder.path().join(format!("mesh/{part}.{end}"));
            fs::read_to_string(file).expect("it was made")
        };
        Pass { certificate: read("crt"), key: read("key") }
    }

    async fn tls(&self, pass: Option<&Pass>) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let root = self.authority.certificate().der().to_vec();
        roots.add(CertificateDer::from(root)).expect("a root can be trusted");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS")
            .with_root_certificates(roots);
        let config = match pass {
            None => config.with_no_client_auth(),
            Some(Pass { certificate, key }) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                config.with_client_auth_cert(chain, key).expect("they fit each other")
            }
        };
        let stream = TcpStream::connect(&self.address).await?;
        let name = ServerName::try_from("ca.mesh.internal").expect("a name for TLS");
        within("a TLS handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
    }

    /// A link, if the process lets us have one.
    async fn link(&self, pass: Option<&Pass>) -> Result<Link, String> {
        let stream = self.tls(pass).await.map_err(|error| error.to_string())?;
        let dial =
            within("an upgrade or a refusal", client_async("wss://ca.mesh.internal/mesh", stream)).await;
        dial.map(|(link, _)| link).map_err(|error| error.to_string())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("the process's words:\n{}", self.log());
        }
    }
}

fn pass(authority: &Authority, part: &str, not_before: i64, not_after: i64) -> Pass {
    let (key, name) = (Key::generate(Curve::P256), format!("{part}.mesh.internal"));
    let issued =
        authority.issue_mesh(&name, &key.public(), std::slice::from_ref(&name), not_before, not_after);
    Pass { certificate: issued.expect("it can be issued").pem().to_owned(), key: key.to_pem() }
}

/// A question that every room may ask the authority, in somebody's name.
fn question(caller: &Value) -> Value {
    let params = json!({ "aid": format!("nobody.{ISSUER}") });
    json!({ "method": "ca.get_cert", "caller": caller, "within_ms": 5000, "params": params })
}

/// What comes back: an answer, or nothing but the end of the link.
async fn ask(link: &mut Link, caller: &Value) -> Option<Value> {
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "mesh.call", "params": question(caller) });
    link.send(Message::text(call.to_string())).await.ok()?;
    loop {
        match within("an answer or the end", link.next()).await {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).expect("JSON")),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(_) | Err(_)) | None => return None,
        }
    }
}

/// The door's own link, which nothing that others do may harm.
async fn still_works(mesh: &Mesh, link: &mut Link, after: &str) {
    let door = json!({ "room": "gateway" });
    let answer = ask(link, &door).await.unwrap_or_else(|| panic!("the link of the door broke after {after}"));
    assert_eq!(answer["result"]["found"], false, "after {after}: {answer}");
    let mut another = mesh.link(Some(&mesh.pass("gateway"))).await.expect("the door may come again");
    assert!(ask(&mut another, &door).await.is_some_and(|answer| answer["id"] == 7), "after {after}");
}

fn session() -> Value {
    json!({ "agent": {
        "aid": format!("alice.{ISSUER}"), "device": "laptop", "slot": "", "connection": 5, "address": "127.0.0.1",
        "connected_at_ms": 1, "generation": "first", "trace": null,
    } })
}

#[tokio::test]
async fn nobody_without_a_certificate_of_this_mesh_gets_a_link() {
    let mesh = Mesh::start();
    let mut door = mesh.link(Some(&mesh.pass("gateway"))).await.expect("the door is let in");
    let (day, stranger) = (86_400, Authority::root("mesh.internal", "aund mesh", now()));
    let outsiders = [
        ("nobody", None),
        ("another authority", Some(pass(&stranger, "gateway", now() - day, now() + day))),
        ("an expired certificate", Some(pass(&mesh.authority, "gateway", now() - 2 * day, now() - 60))),
        ("a certificate of tomorrow", Some(pass(&mesh.authority, "gateway", now() + day, now() + 2 * day))),
    ];
    for (who, pass) in &outsiders {
        let refused = mesh.link(pass.as_ref()).await;
        assert!(refused.is_err(), "{who} was let in");
        still_works(&mesh, &mut door, who).await;
    }
    let refusals = mesh.log().lines().filter(|line| line.contains("is not let onto the mesh")).count();
    assert_eq!(refusals, outsiders.len(), "{}", mesh.log());
    // What made the difference was the certificate and nothing else.
    mesh.link(Some(&pass(&mesh.authority, "gateway", now() - day, now() + day))).await.expect("let in");
}

#[tokio::test]
async fn a_part_speaks_for_itself_and_for_nobody_else() {
    let mesh = Mesh::start();
    let mut door = mesh.link(Some(&mesh.pass("gateway"))).await.expect("the door is let in");
    let agent = mesh.pass("agent");
    for caller in [
        session(),
        json!({ "known": 5 }),
        json!("operator"),
        json!("stranger"),
        json!({ "room": "gateway" }),
        json!({ "room": "auth" }),
        json!({ "room": "message" }),
        json!({ "room": "ca" }),
        json!({ "room": "" }),
    ] {
        let mut link = mesh.link(Some(&agent)).await.expect("the agent room is let in");
        let own = ask(&mut link, &json!({ "room": "agent" })).await.expect("it is answered");
        assert_eq!(own["result"]["found"], false, "{own}");
        assert_eq!(ask(&mut link, &caller).await, None, "it spoke as {caller}");
        assert_eq!(ask(&mut link, &json!({ "room": "agent" })).await, None, "its link is over");
        still_works(&mesh, &mut door, &caller.to_string()).await;
    }
    // The door may speak for those it let in: the same calls are answered there, by what the caller may ask.
    for caller in [session(), json!({ "known": 5 }), json!("stranger")] {
        let answer = ask(&mut door, &caller).await.expect("it is answered");
        assert_eq!(answer["error"]["code"], -32601, "{caller} is no room: {answer}");
    }
    let operator = ask(&mut door, &json!("operator")).await.expect("it is answered");
    assert_eq!(operator["result"]["found"], false, "{operator}");
    assert_eq!(ask(&mut door, &json!({ "room": "agent" })).await, None, "nor may the door be a room");
}

#[tokio::test]
async fn somebody_elses_client_understands_the_mesh() {
    let mesh = Mesh::start();
    let client = async |part: &str| {
        let stream = mesh.tls(Some(&mesh.pass(part))).await.expect("it is let in");
        let built = WsClientBuilder::default().build_with_stream("ws://ca.mesh.internal/mesh", stream).await;
        built.expect("it is upgraded")
    };
    let call = |method: &str, params: Value| {
        let mut call = ObjectParams::new();
        let caller = json!({ "room": "gateway" });
        for (name, value) in
            [("method", json!(method)), ("caller", caller), ("within_ms", json!(5000)), ("params", params)]
        {
            call.insert(name, value).expect("plain data");
        }
        call
    };
    let nobody = json!({ "aid": format!("nobody.{ISSUER}") });
    let door = client("gateway").await;
    let found: Value =
        door.request("mesh.call", call("ca.get_cert", nobody.clone())).await.expect("a result");
    assert_eq!(found["found"], false, "{found}");

    for (method, params, code) in [
        ("ca.get_cert", json!({ "aid": 7 }), -32602),
        ("ca.no_such", json!({}), -32601),
        ("message.send", json!({}), 5003),
    ] {
        let refused = door.request::<Value, _>("mesh.call", call(method, params)).await;
        let Err(Error::Call(error)) = refused else { panic!("{method}: {refused:?}") };
        assert_eq!(error.code(), code, "{method}: {error}");
        let data: Value = serde_json::from_str(error.data().expect("it has data").get()).expect("JSON");
        assert_eq!(data["retryable"], code == 5003, "{method}: {data}");
    }

    // Many at once, each with its own answer.
    let asked = (0..100).map(|_| door.request::<Value, _>("mesh.call", call("ca.get_cert", nobody.clone())));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.expect("a result")["found"], false);
    }
    let liar = client("agent").await;
    let cut = liar.request::<Value, _>("mesh.call", call("ca.get_cert", nobody.clone())).await;
    assert!(matches!(cut, Err(Error::RestartNeeded(_) | Error::Transport(_))), "{cut:?}");
    assert!(door.request::<Value, _>("mesh.call", call("ca.get_cert", nobody)).await.is_ok());
}
