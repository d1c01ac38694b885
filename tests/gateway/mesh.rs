//! The links between processes: which process gets one, and which services it may speak for. One process with the `ca`
//! service answers; the others are played by the test.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use certs::Authority;
use futures_util::{SinkExt, StreamExt};
use jsonrpsee_core::client::{ClientT, SubscriptionClientT};
use jsonrpsee_core::params::ArrayParams;
use jsonrpsee_ws_client::WsClientBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;

use crate::support::agent::random_hex;
use crate::support::mesh_link::{ProcessCertificate, TestMeshLink, TestMeshStream, mesh_link, mesh_tls};
use crate::support::{ISSUER, aund, now, printed, setting, within};

/// Each has a certificate.
pub(crate) const SERVICES: [&str; 7] = ["ca", "auth", "agent", "message", "search", "task", "gateway"];

/// A process that runs `ca` for others, and the authority of its mesh.
pub(crate) struct TestMesh {
    folder: TempDir,
    process: Child,
    pub address: String,
    authority: Authority,
}

impl TestMesh {
    pub fn start() -> TestMesh {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let made = aund(&[&["certs", "mesh", "mesh"], &SERVICES[..]].concat(), folder.path());
        assert!(made.status.success(), "{}", printed(&made.stderr));
        let redis = setting("AUND_TEST_REDIS_URL").expect("AUND_TEST_REDIS_URL says where Redis is");
        let settings = format!(
            "issuer = \"{ISSUER}\"\nbus.url = \"{redis}?prefix=mesh-{}\"\n[mesh]\nlisten = \"127.0.0.1:0\"\n\
             cert = \"mesh/ca.crt\"\nkey = \"mesh/ca.key\"\nauthority = \"mesh/authority.crt\"\n",
            random_hex(8)
        );
        fs::write(folder.path().join("ca.toml"), settings).expect("a file can be written");
        let mut process = Command::new(crate::support::program())
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
        TestMesh { authority: authority.expect("an authority"), folder, process, address }
    }

    /// The certificate that was made for a service.
    pub fn process_certificate(&self, service: &str) -> ProcessCertificate {
        ProcessCertificate::read(&self.folder.path().join("mesh"), service)
    }

    async fn tls(&self, own: Option<&ProcessCertificate>) -> std::io::Result<TestMeshStream> {
        mesh_tls(&self.address, "ca", self.authority.certificate(), own).await
    }

    /// A link, if the process lets us have one.
    pub async fn link(&self, own: Option<&ProcessCertificate>) -> Result<TestMeshLink, String> {
        mesh_link(&self.address, "ca", self.authority.certificate(), own).await
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for TestMesh {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("the process's log:\n{}", self.log());
        }
    }
}

fn process_certificate(
    authority: &Authority,
    service: &str,
    not_before: i64,
    not_after: i64,
) -> ProcessCertificate {
    ProcessCertificate::issue(authority, &[service], not_before, not_after)
}

/// A question that many services may ask the authority, in somebody's name.
fn question(caller: &Value) -> Value {
    json!([7, caller, 5000, "ca.get_cert", { "aid": format!("nobody.{ISSUER}") }])
}

/// An answer as JSON-RPC would have it.
fn answer(of: &Value) -> Value {
    json!({ "id": of[0], "result": of[1], "error": of[2] })
}

async fn ask(link: &mut TestMeshLink, caller: &Value) -> Option<Value> {
    call(link, &question(caller)).await
}

/// What comes back: an answer, or nothing but the end of the link.
pub(crate) async fn call(link: &mut TestMeshLink, call: &Value) -> Option<Value> {
    let call = json!({ "jsonrpc": "2.0", "method": "mesh.calls", "params": [call] });
    link.send(Message::text(call.to_string())).await.ok()?;
    loop {
        match within("an answer or the end", link.next()).await {
            Some(Ok(Message::Text(text))) => {
                let frame: Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(frame["method"], "mesh.answers", "{frame}");
                return Some(answer(&frame["params"][0]));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(_) | Err(_)) | None => return None,
        }
    }
}

/// The gateway's own link, which nothing that others do may harm.
async fn still_works(mesh: &TestMesh, link: &mut TestMeshLink, after: &str) {
    let gateway = json!({ "service": "gateway" });
    let answer =
        ask(link, &gateway).await.unwrap_or_else(|| panic!("the link of the gateway broke after {after}"));
    assert_eq!(answer["result"]["found"], false, "after {after}: {answer}");
    let mut another =
        mesh.link(Some(&mesh.process_certificate("gateway"))).await.expect("the gateway may come again");
    assert!(ask(&mut another, &gateway).await.is_some_and(|answer| answer["id"] == 7), "after {after}");
}

fn session() -> Value {
    json!({ "agent": {
        "aid": format!("alice.{ISSUER}"), "device": "laptop", "slot": "", "connection": 5, "address": "127.0.0.1",
        "connected_at_ms": 1, "generation": "first", "trace": null,
    } })
}

#[tokio::test]
async fn nobody_without_a_certificate_of_this_mesh_gets_a_link() {
    let mesh = TestMesh::start();
    let mut gateway =
        mesh.link(Some(&mesh.process_certificate("gateway"))).await.expect("the gateway gets a link");
    let (day, other_authority) = (86_400, Authority::mesh("mesh.internal", "aund mesh", now()));
    let outsiders = [
        ("nobody", None),
        (
            "another authority",
            Some(process_certificate(&other_authority, "gateway", now() - day, now() + day)),
        ),
        (
            "an expired certificate",
            Some(process_certificate(&mesh.authority, "gateway", now() - 2 * day, now() - 60)),
        ),
        (
            "a certificate of tomorrow",
            Some(process_certificate(&mesh.authority, "gateway", now() + day, now() + 2 * day)),
        ),
    ];
    for (who, process_certificate) in &outsiders {
        let refused = mesh.link(process_certificate.as_ref()).await;
        assert!(refused.is_err(), "{who} got a link");
        still_works(&mesh, &mut gateway, who).await;
    }
    let refusals = mesh.log().lines().filter(|line| line.contains("was refused on the mesh")).count();
    assert_eq!(refusals, outsiders.len(), "{}", mesh.log());
    // What made the difference was the certificate and nothing else.
    mesh.link(Some(&process_certificate(&mesh.authority, "gateway", now() - day, now() + day)))
        .await
        .expect("let in");
}

#[tokio::test]
async fn a_service_speaks_for_itself_and_for_no_other() {
    let mesh = TestMesh::start();
    let mut gateway =
        mesh.link(Some(&mesh.process_certificate("gateway"))).await.expect("the gateway gets a link");
    let agent = mesh.process_certificate("agent");
    for caller in [
        session(),
        json!(5),
        json!("operator"),
        json!({ "unauthenticated": "192.0.2.7" }),
        json!({ "service": "gateway" }),
        json!({ "service": "auth" }),
        json!({ "service": "message" }),
        json!({ "service": "ca" }),
        json!({ "service": "" }),
    ] {
        let mut link = mesh.link(Some(&agent)).await.expect("the agent service gets a link");
        let own = ask(&mut link, &json!({ "service": "agent" })).await.expect("it is answered");
        assert_eq!(own["result"]["found"], false, "{own}");
        assert_eq!(ask(&mut link, &caller).await, None, "it spoke as {caller}");
        assert_eq!(ask(&mut link, &json!({ "service": "agent" })).await, None, "its link is over");
        still_works(&mesh, &mut gateway, &caller.to_string()).await;
    }
    // The gateway may speak for its connections: the same calls are answered there, by what the caller may ask.
    for (caller, code) in [(session(), -32601), (json!(5), -32601)] {
        let answer = ask(&mut gateway, &caller).await.expect("it is answered");
        assert_eq!(answer["error"]["code"], code, "{caller} is no service: {answer}");
    }
    let open = ask(&mut gateway, &json!({ "unauthenticated": "192.0.2.7" })).await.expect("it is answered");
    assert_eq!(open["result"]["found"], false, "a route opens the method to everybody: {open}");
    assert_eq!(
        ask(&mut gateway, &json!({ "service": "agent" })).await,
        None,
        "nor may the gateway be a service"
    );
    let mut another = mesh.link(Some(&mesh.process_certificate("gateway"))).await.expect("it may come again");
    assert_eq!(ask(&mut another, &json!("operator")).await, None, "nor the operator");
}

#[tokio::test]
async fn somebody_elses_client_understands_the_mesh() {
    let mesh = TestMesh::start();
    let client = async |service: &str| {
        let stream = mesh.tls(Some(&mesh.process_certificate(service))).await.expect("it gets a link");
        let built = WsClientBuilder::default().build_with_stream("ws://ca.mesh.internal/mesh", stream).await;
        built.expect("it is upgraded")
    };
    let calls = |asked: &[(u64, &str, Value)]| {
        let mut calls = ArrayParams::new();
        for (id, method, params) in asked {
            calls.insert(json!([id, { "service": "gateway" }, 5000, method, params])).expect("plain data");
        }
        calls
    };
    let nobody = json!({ "aid": format!("nobody.{ISSUER}") });
    let gateway = client("gateway").await;
    let mut answers = gateway.subscribe_to_method::<Value>("mesh.answers").await.expect("it listens");
    let asked = [
        (1, "ca.get_cert", nobody.clone()),
        (2, "ca.get_cert", json!({ "aid": 7 })),
        (3, "ca.no_such", json!({})),
        (4, "message.send", json!({})),
    ];
    gateway.notification("mesh.calls", calls(&asked)).await.expect("it is sent");
    let mut told = BTreeMap::new();
    while told.len() < asked.len() {
        let frame = within("answers", answers.next()).await.expect("the link stays").expect("JSON");
        for of in frame.as_array().expect("many answers") {
            told.insert(of[0].as_u64().expect("a number"), answer(of));
        }
    }
    assert_eq!(told[&1]["result"]["found"], false, "{told:?}");
    for (id, code) in [(2, -32602), (3, -32601), (4, 5003)] {
        let error = &told[&id]["error"];
        assert_eq!(
            (&error["code"], &error["data"]["retryable"]),
            (&json!(code), &json!(code == 5003)),
            "{told:?}"
        );
    }

    let liar = client("agent").await;
    liar.notification("mesh.calls", calls(&asked[..1])).await.expect("it is sent");
    within("the end of its link", liar.on_disconnect()).await;
    gateway.notification("mesh.calls", calls(&asked[..1])).await.expect("the gateway's link stays");
    assert!(within("an answer", answers.next()).await.is_some_and(|frame| frame.is_ok()));
}
