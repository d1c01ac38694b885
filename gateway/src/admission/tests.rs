//! Who may call what, and when: one table for every way in.

use super::{Admission, AdmittedCall, AgentLimit, Call, CallSource, CalledMethod, KnownSigner};
use crate::config::Config;
use kernel::{
    Aid, CallTerm, CallWay, Caller, CallingAgent, Methods, OnAnswer, PendingAnswer, RemoteService, RpcError,
    TokenCaller, World, codes, unavailable,
};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::future::ready;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where the services that a method needs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceState {
    Up,
    /// Of this server, and not reachable right now.
    Down,
    /// Not of this server.
    Absent,
}

struct DownService;

impl RemoteService for DownService {
    fn call(&self, _: Caller, _: &str, _: Option<&RawValue>, _: Duration) -> PendingAnswer {
        Box::pin(ready(Err(unavailable("test"))))
    }

    fn send(&self, _: &CallingAgent, _: &str, _: Option<&RawValue>, term: CallTerm, then: OnAnswer) {
        then(Err(unavailable("test")), term.began);
    }

    fn is_up(&self) -> bool {
        false
    }
}

/// A server whose services are all in this state.
fn admission(text: &str, state: ServiceState) -> Admission {
    let config = Config::parse(text, &crate::config::test_services()).unwrap();
    let world = World::local(&config.issuer, Path::new("unused"), config.store_url().unwrap());
    let served = proto_schemas::namespaces().iter().filter(|namespace| namespace.service != "gateway");
    for namespace in served.map(|namespace| namespace.name) {
        match state {
            ServiceState::Up => world.mesh.add_local(namespace, Methods::default()),
            ServiceState::Down => world.mesh.add_remote(namespace, Arc::new(DownService)),
            ServiceState::Absent => {}
        }
    }
    Admission::new(&config, &world)
}

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// An agent's side of admission.
struct TestCaller {
    aid: Aid,
    token: TokenCaller,
    limit: Arc<AgentLimit>,
    signer: KnownSigner,
}

/// Other domains are counted elsewhere.
fn unlimited() -> Result<(), RpcError> {
    Ok(())
}

impl TestCaller {
    fn new(admission: &Admission) -> TestCaller {
        let aid = Aid::parse("alice.agents.localhost").unwrap();
        let token = TokenCaller::access(CallingAgent::without_session(aid.clone(), ADDRESS));
        TestCaller { limit: admission.limits.agent(&aid), aid, token, signer: KnownSigner::default() }
    }

    /// Every kind of caller, by name.
    fn sources(&self) -> [(&'static str, CallSource<'_>); 6] {
        let TestCaller { aid, token, limit, signer } = self;
        [
            ("unauthenticated", CallSource::Unauthenticated { address: ADDRESS, connected: true }),
            ("session", CallSource::Session { aid, address: ADDRESS, limit, signer }),
            ("token", CallSource::Token { token, address: ADDRESS, limit: Some(limit), signer }),
            ("foreign agent", CallSource::ForeignAgent { limit: &unlimited }),
            ("foreign service", CallSource::ForeignService { limit: &unlimited }),
            ("operator", CallSource::Operator),
        ]
    }
}

fn begin(
    admission: &Admission,
    source: &CallSource<'_>,
    name: &str,
) -> Result<&'static proto_schemas::Method, RpcError> {
    admission.begin(&Call::named(source, name, None))
}

async fn finish<'a>(
    admission: &Admission,
    source: &'a CallSource<'a>,
    name: &'static str,
    params: Option<Box<RawValue>>,
) -> Result<AdmittedCall<'a>, RpcError> {
    let method = proto_schemas::find(name).unwrap();
    admission.finish(Call::named(source, name, params.map(Cow::Owned)), method).await
}

fn code(found: Result<&'static proto_schemas::Method, RpcError>) -> i32 {
    found.err().map_or(0, |error| error.code())
}

const OK: i32 = 0;
const LOGIN_FIRST: i32 = codes::NOT_INITIALIZED.code;
const NOT_FOUND: i32 = codes::METHOD_NOT_FOUND.code;
const NO_SOCKET: i32 = codes::INVALID_REQUEST.code;
const DOWN: i32 = codes::UNAVAILABLE.code;

/// By method: what an unauthenticated caller, a session, a token, an agent and a service of another domain, and the
/// operator get while everything is up; and what those that get an answer get while the services are down and absent.
#[rustfmt::skip]
const TABLE: [(&str, &str, [i32; 6], i32, i32); 11] = [
    // kind                             method               unauthenticated  session    token      agent      service    operator
    ("public",                          "auth.create_aid",   [OK,             OK,        OK,        NOT_FOUND, NOT_FOUND, OK],        DOWN, NOT_FOUND),
    ("session",                         "message.read",      [LOGIN_FIRST,    OK,        OK,        NOT_FOUND, NOT_FOUND, OK],        DOWN, NOT_FOUND),
    ("session, needs its connection",   "message.history",   [LOGIN_FIRST,    OK,        NO_SOCKET, NOT_FOUND, NOT_FOUND, OK],        DOWN, NOT_FOUND),
    ("session, relayed for agents",     "message.send",      [LOGIN_FIRST,    OK,        OK,        OK,        NOT_FOUND, OK],        DOWN, NOT_FOUND),
    ("answered by the gateway",         "meta.ping",         [LOGIN_FIRST,    OK,        OK,        NOT_FOUND, NOT_FOUND, OK],        OK,   OK),
    ("by the gateway, needs a service", "meta.trust_roots",  [LOGIN_FIRST,    OK,        OK,        NOT_FOUND, NOT_FOUND, OK],        DOWN, NOT_FOUND),
    ("internal",                        "ca.issue_cert",     [LOGIN_FIRST,    NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND, OK],        OK,   OK),
    ("of session notices",              "message.session_opened", [LOGIN_FIRST, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND, OK],      OK,   OK),
    ("peer",                            "federation.relay",  [LOGIN_FIRST,    NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND], OK,   OK),
    ("notification",                    "notification/route", [LOGIN_FIRST,   OK,        NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND], OK,   OK),
    ("unknown",                         "message.nothing",   [LOGIN_FIRST,    NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND], OK,   OK),
];

#[test]
fn every_kind_of_caller_gets_what_the_table_says_in_every_state() {
    for state in [ServiceState::Up, ServiceState::Down, ServiceState::Absent] {
        let admission = admission("", state);
        let caller = TestCaller::new(&admission);
        for (kind, method, up, down, absent) in TABLE {
            for ((name, source), up) in caller.sources().iter().zip(up) {
                // The operator is told by the mesh that a service is down: nothing is hidden from it.
                let operator = matches!(source, CallSource::Operator);
                let expected = match state {
                    ServiceState::Down if up == OK && !operator => down,
                    ServiceState::Absent if up == OK && !operator => absent,
                    _ => up,
                };
                let got = code(begin(&admission, source, method));
                assert_eq!(got, expected, "{name} calls {method} ({kind}) while services are {state:?}");
            }
        }
    }
}

#[test]
fn the_table_has_every_access_there_is() {
    let kinds = |method: &proto_schemas::Method| (method.access, method.notification);
    let listed: Vec<_> = TABLE.iter().filter_map(|row| proto_schemas::find(row.1)).map(kinds).collect();
    for method in proto_schemas::methods() {
        assert!(listed.contains(&kinds(method)), "no row is like {}", method.name);
    }
}

#[test]
fn a_method_that_needs_a_connection_is_refused_over_http_with_the_reason() {
    let admission = admission("", ServiceState::Up);
    let caller = TestCaller::new(&admission);
    let needing = proto_schemas::methods()
        .iter()
        .filter(|method| method.needs_connection && method.access.is_for_agents() && !method.notification);
    for method in needing {
        let [_, (_, session), (_, token), ..] = caller.sources();
        assert_eq!(code(begin(&admission, &session, method.name)), OK, "{}", method.name);
        let refused = begin(&admission, &token, method.name).unwrap_err();
        assert_eq!(refused.code(), codes::INVALID_REQUEST.code, "{}", method.name);
        assert!(refused.to_string().contains("WebSocket"), "{refused}");
    }
}

#[test]
fn the_rate_of_an_agent_counts_over_sessions_and_tokens_and_names_that_do_not_exist() {
    let admission = admission("limits.calls_per_second = 3", ServiceState::Up);
    let caller = TestCaller::new(&admission);
    let [_, (_, session), (_, token), ..] = caller.sources();
    assert_eq!(code(begin(&admission, &session, "meta.ping")), OK);
    assert_eq!(code(begin(&admission, &token, "meta.ping")), OK);
    assert_eq!(code(begin(&admission, &session, "no.such")), NOT_FOUND);
    for source in [&session, &token] {
        assert_eq!(code(begin(&admission, source, "meta.ping")), codes::RATE_LIMITED.code);
    }
    assert_eq!(
        code(begin(&admission, &CallSource::Operator, "message.send")),
        OK,
        "the operator has no rate"
    );
}

#[tokio::test]
async fn the_class_of_a_method_counts_before_login_and_after_it() {
    let admission = admission("limits.registrations_per_minute = 2", ServiceState::Up);
    let caller = TestCaller::new(&admission);
    let [(_, unauthenticated), (_, session), (_, token), .., (_, operator)] = caller.sources();
    let finish = async |source: &CallSource<'_>| {
        finish(&admission, source, "auth.create_aid", None).await.map(|admitted| admitted.method)
    };
    assert_eq!(code(finish(&unauthenticated).await), OK);
    assert_eq!(code(finish(&session).await), OK);
    for source in [&unauthenticated, &session, &token] {
        assert_eq!(code(finish(source).await), codes::RATE_LIMITED.code, "one address");
    }
    assert_eq!(code(finish(&operator).await), OK);
}

#[tokio::test]
async fn reserved_members_are_removed_for_every_caller_and_nothing_else() {
    let admission = admission("", ServiceState::Up);
    let caller = TestCaller::new(&admission);
    for (name, source) in caller.sources() {
        let params = to_raw_value(&json!({ "_auth": { "aid": "x" }, "to": "y" })).unwrap();
        let finished = finish(&admission, &source, "message.send", Some(params)).await;
        let finished = finished.unwrap().params.unwrap();
        assert_eq!(finished.get(), r#"{"to":"y"}"#, "{name}");
    }
}

#[tokio::test]
async fn a_wrong_signature_is_refused_wherever_an_agent_signs() {
    let admission = admission("", ServiceState::Up);
    let caller = TestCaller::new(&admission);
    let [_, (_, session), (_, token), ..] = caller.sources();
    let method = proto_schemas::find("message.send").unwrap();
    for source in [session, token] {
        let params = to_raw_value(&json!({ "client_signature": { "aid": "x" } })).unwrap();
        assert!(!Admission::is_finished(method, Some(&params)));
        let refused = finish(&admission, &source, "message.send", Some(params)).await.unwrap_err();
        assert_eq!(refused.code(), codes::CLIENT_SIGNATURE_INVALID.code);
    }
}

#[test]
fn the_federation_tag_appears_while_federation_is_enabled() {
    assert!(admission("", ServiceState::Up).capabilities().contains("\"federation\""));
    let without = admission("federation.enabled = false", ServiceState::Up);
    assert!(!without.capabilities().contains("\"federation\""));
}

#[test]
fn a_token_of_a_service_opens_the_routes_that_name_its_kind_and_nothing_else() {
    let admission = admission("", ServiceState::Up);
    let (signer, address) = (KnownSigner::default(), ADDRESS);
    let token =
        TokenCaller { kind: "agent".into(), subject: "0190163d".to_owned(), agent: None, payer: None };
    let source = CallSource::Token { token: &token, address, limit: None, signer: &signer };
    let by_route = |name: &str| {
        let method = proto_schemas::find(name).unwrap();
        let way = CallWay::Route(&method.http[0]);
        admission.begin(&Call { source: &source, way, method: CalledMethod::Known(method), params: None })
    };
    assert_eq!(code(by_route("agent.get")), OK);
    assert_eq!(code(by_route("agent.update")), codes::PERMISSION_DENIED.code);
    assert_eq!(code(begin(&admission, &source, "agent.get")), NOT_FOUND, "not as JSON-RPC");
}

#[test]
fn runners_of_one_tenant_have_the_streams_of_one_caller() {
    let admission = admission("limits.streams_per_caller = 2", ServiceState::Up);
    let (signer, address) = (KnownSigner::default(), ADDRESS);
    let open = |kind: &'static str, subject: &str, payer: Option<&str>| {
        let (subject, payer) = (subject.to_owned(), payer.map(str::to_owned));
        let token = TokenCaller { kind: kind.into(), subject, agent: None, payer };
        let source = CallSource::Token { token: &token, address, limit: None, signer: &signer };
        admission.open_stream(&source).map_err(|error| error.code())
    };
    let acme = Some("tenant:acme");
    let held = [open("runner", "run_1 attempt_1", acme), open("runner", "run_2 attempt_2", acme)];
    assert!(held.iter().all(Result::is_ok));
    for (kind, subject, payer) in [("runner", "run_3 attempt_3", acme), ("tenant", "acme", None)] {
        assert_eq!(open(kind, subject, payer).err(), Some(codes::RATE_LIMITED.code), "{kind}");
    }
    assert!(open("runner", "run_4 attempt_4", Some("tenant:other")).is_ok());
}
