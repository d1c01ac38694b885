//! The examples of methods that no agent can call, each called by one it is for: the operator, a service over the mesh, the gateway of
//! another domain, or a service there.

use std::collections::HashMap;
use std::fs;

use certs::Certificate;
use certs::dev::Pki;
use proto_schemas::{Access, Method};
use serde_json::{Value, json};

use super::{HIGH_LIMITS, filled, flaw, register, runs, values};
use crate::federation::fake_peer::FakePeer;
use crate::support::agent::{ConnectedAgent, TestIdentity, random_hex, text};
use crate::support::domain::TestDomain;
use crate::support::mesh_link::{MESH_PORT, ProcessCertificate, mesh_call, mesh_link};
use crate::support::socket::TestSocket;
use crate::support::{ISSUER, TestServer, now, split};

/// Which service calls which methods. What is not listed is called by the operator, or by another domain if its schema says so.
const SERVICE_CALLS: [(&str, &[&str]); 6] = [
    (
        "agent",
        &[
            "ca.ended_agents",
            "message.webhook.ack",
            "message.webhook.next",
            "message.webhook.put_device",
            "message.webhook.remove_device",
            "message.webhook.waiting",
        ],
    ),
    ("auth", &["ca.get_cert", "ca.issue_cert", "ca.rekey_cert", "ca.renew_cert", "ca.verify_chain"]),
    ("ca", &["auth.revoke_tokens"]),
    (
        "gateway",
        &[
            "auth.verify_token",
            "ca.get_cert_chain",
            "ca.get_trust_roots",
            "ca.issue_service_cert",
            "h2a.session_closed",
            "h2a.session_opened",
            "h2a.session_resync",
            "message.session_closed",
            "message.session_opened",
            "message.session_resync",
        ],
    ),
    (
        "message",
        &["gateway.dispatch_event", "gateway.forward_federation", "gateway.forward_federation_batch"],
    ),
    ("search", &["agent.changes"]),
];

/// Where the members of a result are that have to be true or false as in the example.
const OUTCOMES: [&str; 5] = ["", "/result", "/result/online", "/results/0", "/results/0/result/online"];

enum ExampleCaller {
    Operator,
    Service(&'static str),
    PeerGateway,
    PeerService,
}

fn caller_of(method: &Method) -> ExampleCaller {
    let mut listed = SERVICE_CALLS.into_iter().filter(|(_, methods)| methods.contains(&method.name));
    match (method.access, listed.next()) {
        (Access::Peer, _) => ExampleCaller::PeerGateway,
        _ if method.federation.is_some_and(|rule| rule.services) => ExampleCaller::PeerService,
        (_, Some((service, _))) => ExampleCaller::Service(service),
        (_, None) => ExampleCaller::Operator,
    }
}

/// A server that can be called over the mesh, and the domain `other.example`.
struct InternalCalls {
    server: TestServer,
    other: TestServer,
    /// The other agent of the examples.
    peer: ConnectedAgent,
    /// Whom the examples ask for over there.
    _bob: ConnectedAgent,
}

impl InternalCalls {
    async fn start() -> InternalCalls {
        let ours = TestDomain { issuer: ISSUER.to_owned(), ..TestDomain::new("ours") };
        let theirs = TestDomain { issuer: "other.example".to_owned(), ..TestDomain::new("other") };
        let names = ours.resolve() + &theirs.resolve();
        let more = match split() {
            // The run service knows by itself only of a gateway in its own process.
            true => format!("run.manager_url = \"{}\"\n", ours.plain_url()),
            false => ours.mesh_settings(),
        };
        let mut server = ours.prepared(&format!("{names}{HIGH_LIMITS}\n{more}"));
        if !split() {
            server.make_mesh();
        }
        let mut other = theirs.prepared(&names);
        server.start_again();
        other.start_again();
        server.knows_its_gateway().await;
        other.knows_its_gateway().await;
        server.trusts(&other).await;
        other.trusts(&server).await;
        let (peer, bob) = (server.agent("peer-of-all").await, other.agent("bobb").await);
        register(&peer).await;
        other.at_least_sessions(1).await;
        InternalCalls { server, other, peer, _bob: bob }
    }

    async fn call(
        &self,
        method: &Method,
        params: &Value,
        who: &FakePeer,
        socket: &TestSocket,
    ) -> Result<Value, Value> {
        match caller_of(method) {
            ExampleCaller::Operator => self.server.by_operator(method.name, params).await,
            ExampleCaller::Service(service) => self.by_service(service, method, params).await,
            ExampleCaller::PeerGateway if method.name == "federation.hello" => {
                socket.try_call(method.name, &who.signed(params.clone())).await
            }
            ExampleCaller::PeerGateway => who.link(&self.server).await.try_call(method.name, params).await,
            ExampleCaller::PeerService => self.by_peer_service(who, method, params).await,
        }
    }

    /// Over a link of a process with the certificate of this service.
    async fn by_service(&self, service: &str, method: &Method, params: &Value) -> Result<Value, Value> {
        let folder = self.server.beside(if split() { "split/mesh" } else { "mesh" });
        let authority = fs::read_to_string(folder.join("authority.crt")).expect("it was made");
        let authority = Certificate::from_pem(&authority).expect("the authority is a certificate");
        let (own, called) = (ProcessCertificate::read(&folder, service), method.namespace.service);
        let link = mesh_link(&self.mesh_address(called), called, &authority, Some(&own)).await;
        let mut link = link.expect("a service gets a link");
        mesh_call(&mut link, service, method.name, params).await
    }

    /// By the service of the other domain that serves the same namespace.
    async fn by_peer_service(&self, who: &FakePeer, method: &Method, params: &Value) -> Result<Value, Value> {
        let (namespace, name) = method.name.split_once('.').expect("a method has a namespace");
        let relay = json!({
            "relay_id": random_hex(16), "kind": "rpc", "namespace": namespace, "method": name,
            "caller": { "type": "service", "aid": format!("{}.{}", method.namespace.service, who.issuer) },
            "params": params, "hop": 1, "depth": 0, "deadline_ms": 15000,
        });
        let mut relayed = who.link(&self.server).await.try_call("federation.relay", &relay).await?;
        match relayed["ok"] == true {
            true => Ok(relayed["result"].take()),
            false => Err(relayed["error"].take()),
        }
    }

    fn mesh_address(&self, service: &str) -> String {
        if !split() {
            return format!("{}:{MESH_PORT}", self.server.host());
        }
        let settings = fs::read_to_string(self.server.beside(&format!("split/{service}1.toml")));
        let settings = settings.expect("each process has its settings");
        let (_, mesh) = settings.split_once("[mesh]").expect("each process is on the mesh");
        let address = mesh.lines().find_map(|line| line.strip_prefix("listen = \"")?.strip_suffix('"'));
        address.expect("it listens").to_owned()
    }

    /// What only the examples of these methods need.
    async fn more_values(
        &self,
        caller: &TestIdentity,
        who: &FakePeer,
        example: &str,
    ) -> HashMap<String, String> {
        let [issuer, registry] = [0, 1].map(|n| who.chain[n].clone());
        let mut values = HashMap::from(
            [
                ("gateway_cert", who.cert.pem().to_owned()),
                ("gateway_issuer", issuer),
                ("gateway_registry", registry),
                ("gateway_signature", String::new()),
                ("other_root", another_root()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        let wanted = |name: &str| example.contains(&format!("{{{{{name}}}}}"));
        if wanted("trusted_root") {
            let root = json!({ "certificate": another_root(), "any_domain": true });
            let added =
                self.server.by_operator("ca.add_trust_root", &root).await.expect("a root is accepted");
            values.insert("trusted_root".to_owned(), text(&added["fingerprint_sha256"]));
        }
        if wanted("agent_token") {
            let session = self.server.connect(caller, |_| ()).await;
            let made = session.call("agent.create", &json!({ "name": "Caller" })).await;
            values.insert("agent_token".to_owned(), text(&made["agent_token"]));
        }
        values.extend(runs::values_of_operator(&self.server, example).await);
        if wanted("suspended_relation") {
            let session = self.server.connect(caller, |_| ()).await;
            let grant = json!({ "agent_id": self.peer.aid(), "granted_scopes": ["filesystem:read"] });
            let id = text(&session.call("h2a.grant", &grant).await["relation"]["id"]);
            let suspended = self.server.by_operator("h2a.suspend", &json!({ "id": id })).await;
            suspended.expect("a relation is suspended");
            values.insert("suspended_relation".to_owned(), id);
        }
        values
    }
}

fn another_root() -> String {
    Pki::new("elsewhere.example", now()).root.certificate().pem().to_owned()
}

/// What is true or false in the example and not so in the result.
fn contradictions(example: &Value, result: &Value) -> Vec<String> {
    let members = OUTCOMES.iter().filter_map(|at| {
        let (expected, got) = (example["result"].pointer(at)?.as_object()?, result.pointer(at)?);
        let wrong =
            expected.iter().filter(|(name, value)| value.is_boolean() && got[name.as_str()] != **value);
        Some(wrong.map(|(name, value)| format!("{at}/{name} is not {value}")).collect::<Vec<_>>())
    });
    members.flatten().collect()
}

#[tokio::test]
async fn every_example_of_an_internal_method_does_what_it_says_for_the_caller_it_is_for() {
    let calls = InternalCalls::start().await;
    let who = FakePeer::of(&calls.other);
    let mut flaws = Vec::new();
    for method in proto_schemas::methods().iter().filter(|method| !method.access.is_for_agents()) {
        for example in method.doc()["examples"].as_array().expect("a method has examples") {
            let caller = calls.server.register(&format!("caller-{}", random_hex(6))).await;
            let (socket, written) = (calls.server.tls_socket("/aun").await, example["params"].to_string());
            let mut values = values(&calls.server, &caller, &calls.peer, &socket, &written).await;
            values.extend(calls.more_values(&caller, &who, &written).await);
            let params = filled(&example["params"], &caller, &values);

            let hidden = calls.peer.call_error(method.name, &params).await;
            assert_eq!(hidden["code"], -32601, "an agent must not see {}: {hidden}", method.name);
            let outcome = calls.call(method, &params, &who, &socket).await;
            flaws.extend(flaw(method, example, &outcome));
            if let Ok(result) = &outcome {
                let wrong = contradictions(example, result);
                flaws.extend(wrong.iter().map(|wrong| format!("{}: {wrong}: {result}", method.name)));
            }
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}
