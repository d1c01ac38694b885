//! The certificate of one service in the wrong hands, and sockets that only wait on the port of the mesh.

use std::io::ErrorKind;

use certs::{Authority, Curve, Key};
use proto_schemas::Access;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::gateway::mesh::{SERVICES, TestMesh, call};
use crate::support::agent::{public_key, random_hex};
use crate::support::mesh_link::TestMeshLink;
use crate::support::{ISSUER, now, until};

/// As many as the server once accepted in their handshake, from anybody.
const SILENT: usize = 64;

async fn link_of(mesh: &TestMesh, service: &str) -> TestMeshLink {
    let link = mesh.link(Some(&mesh.process_certificate(service))).await;
    link.unwrap_or_else(|error| panic!("the {service} service gets no link: {error}"))
}

/// What a service is answered in its own name.
async fn answer(link: &mut TestMeshLink, service: &str, method: &str, params: &Value) -> Value {
    let asked = json!([7, { "service": service }, 5000, method, params]);
    call(link, &asked).await.unwrap_or_else(|| panic!("{service} lost its link by {method}"))
}

fn a_new_key() -> String {
    public_key(&Key::generate(Curve::P256))
}

#[tokio::test]
async fn a_certificate_of_one_service_does_not_command_the_authority() {
    let mesh = TestMesh::start();
    let (mut auth, mut gateway) = (link_of(&mesh, "auth").await, link_of(&mesh, "gateway").await);
    let (victim, name) = (format!("victim-{}.{ISSUER}", random_hex(6)), format!("made-up.{ISSUER}"));
    let wanted = json!({ "aid": victim, "public_key": a_new_key(), "curve": "P-256" });
    let issued = answer(&mut auth, "auth", "ca.issue_cert", &wanted).await;
    let serial = issued["result"]["cert_sn"].as_str().expect("auth may have certificates issued").to_owned();
    let roots = answer(&mut gateway, "gateway", "ca.get_trust_roots", &json!({})).await;

    let other_root = Authority::root("elsewhere.example", "somebody else", now());
    let attacks = [
        ("ca.issue_cert", json!({ "aid": name, "public_key": a_new_key(), "curve": "P-256" })),
        ("ca.rekey_cert", json!({ "aid": victim, "old_serial": serial, "public_key": a_new_key() })),
        ("ca.renew_cert", json!({ "aid": victim, "old_serial": serial })),
        ("ca.add_trust_root", json!({ "certificate": other_root.certificate().pem() })),
        (
            "ca.issue_service_cert",
            json!({ "name": format!("auth.{ISSUER}"), "public_key": a_new_key(), "curve": "P-256" }),
        ),
        ("ca.revoke_cert", json!({ "aid": victim })),
    ];
    let mut obeyed = Vec::new();
    for service in ["gateway", "agent", "message", "search", "task"] {
        let mut link = link_of(&mesh, service).await;
        for (method, params) in &attacks {
            let answered = answer(&mut link, service, method, params).await;
            if !matches!(answered["error"]["code"].as_i64(), Some(-32601 | -32004)) {
                obeyed.push(format!("{service} called {method}: {answered}"));
            }
        }
    }
    // The gateway is no operator either: whoever says so loses the link.
    let (add, mut gateway) = (&attacks[3], link_of(&mesh, "gateway").await);
    if let Some(answered) = call(&mut gateway, &json!([7, "operator", 5000, add.0, add.1])).await {
        obeyed.push(format!("the gateway called {} as the operator: {answered}", add.0));
    }
    assert!(obeyed.is_empty(), "{}", obeyed.join("\n"));

    let mut gateway = link_of(&mesh, "gateway").await;
    let known = answer(&mut gateway, "gateway", "ca.get_cert", &json!({ "aid": victim })).await;
    assert_eq!(known["result"]["serial"], serial.as_str(), "{known}");
    assert_eq!(known["result"]["lifecycle_state"], "active_signing", "{known}");
    let made_up = answer(&mut gateway, "gateway", "ca.get_cert", &json!({ "aid": name })).await;
    assert_eq!(made_up["result"]["found"], false, "{made_up}");
    let list = answer(&mut gateway, "gateway", "ca.get_trust_roots", &json!({})).await;
    assert_eq!(list["result"]["root_cas"], roots["result"]["root_cas"]);
}

#[tokio::test]
async fn every_internal_method_of_the_authority_is_for_the_services_that_its_schema_lists() {
    let mesh = TestMesh::start();
    let internal = || {
        let methods = proto_schemas::methods().iter();
        methods.filter(|method| method.access == Access::Internal && method.namespace.name == "ca")
    };
    let mut wrong = Vec::new();
    for service in SERVICES {
        let mut link = link_of(&mesh, service).await;
        for method in internal() {
            let answered = answer(&mut link, service, method.name, &json!({})).await;
            let exists = answered["error"]["code"] != -32601;
            if exists != method.is_for_service(service) {
                wrong.push(format!("{service} called {}: {answered}", method.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn silent_sockets_on_the_port_of_the_mesh_keep_no_process_out() {
    let mesh = TestMesh::start();
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(&mesh.address).await.expect("the port is open"));
    }
    // The server accepts in the order in which they came, so it has all of them when it gets to this one.
    let mut after = link_of(&mesh, "auth").await;
    let nobody = json!({ "aid": format!("nobody.{ISSUER}") });
    let answered = answer(&mut after, "auth", "ca.get_cert", &nobody).await;
    assert_eq!(answered["result"]["found"], false, "{answered}");
    until("the oldest of the silent sockets have paid for it", || async {
        silent[..SILENT / 2].iter().all(is_closed).then_some(())
    })
    .await;
}

fn is_closed(socket: &TcpStream) -> bool {
    !socket.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}
