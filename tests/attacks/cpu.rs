//! CPU before login: whoever has proved nothing costs the server little, and is refused without harm to others.

use certs::dev::Pki;
use certs::{Curve, Key, Urls};
use futures_util::future::{join, join_all};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::federation::fake_peer::FakePeer;
use crate::support::agent::{TestIdentity, aid, hello, public_key, random_hex, text};
use crate::support::socket::TestSocket;
use crate::support::{ISSUER, TestServer, now};

/// Two addresses in different networks.
const ATTACKER: [u8; 4] = [127, 200, 1, 1];
const BYSTANDER: [u8; 4] = [127, 201, 1, 1];

/// Many calls on one socket are quicker than many sockets, and count the same.
const MANY_CALLS: &str = "limits.preauth_calls = 100000\nlimits.auth_timeout_ms = 120000";

/// How many sockets call at once.
const SOCKETS: usize = 4;

/// A certificate as this server issues them, on the slower curve, by an authority that has only its name.
pub(super) fn made_up(pki: &Pki, name: &str) -> TestIdentity {
    let key = Key::generate(Curve::P384);
    let url = format!("http://{ISSUER}/");
    let urls = Urls { ca_issuers: url.clone(), ocsp: url.clone(), crl: url };
    let cert = pki.issuer.issue_agent(&aid(name), &key.public(), &urls, now() - 3600, now() + 3600);
    let cert = cert.expect("an authority signs what its owner wants");
    TestIdentity { aid: aid(name), key, cert: cert.pem().to_owned() }
}

/// Makes the calls from one address, over a few sockets.
async fn call_from(
    server: &TestServer,
    source: [u8; 4],
    method: &str,
    calls: &[Value],
) -> Vec<Result<Value, Value>> {
    let parts = calls.chunks(calls.len().div_ceil(SOCKETS));
    let answers = parts.map(|part| async move {
        let socket = server.socket_from(source).await;
        let answers = socket.call_many(method, part).await;
        socket.close().await;
        answers
    });
    join_all(answers).await.concat()
}

/// Says so many hellos from one address, each on a socket of its own, and gives the errors.
async fn hellos_from(
    server: &TestServer,
    source: [u8; 4],
    many: usize,
    hello: impl Fn(&str) -> Value,
) -> Vec<Value> {
    let hello = &hello;
    let each = (0..many).map(|_| async move {
        let socket = server.socket_from(source).await;
        let params = hello(socket.nonce());
        let error = socket.call_error("federation.hello", &params).await;
        socket.closed().await;
        error
    });
    stream::iter(each).buffer_unordered(SOCKETS).collect().await
}

pub(super) async fn log_in(socket: &TestSocket, who: &TestIdentity) -> Result<Value, Value> {
    let begun = socket.try_call("auth.aid_login1", &who.login1()).await?;
    socket.try_call("auth.aid_login2", &who.login2(&begun)).await
}

pub(super) fn is_rate_limit(error: &Value) -> bool {
    error["code"] == -32029 && error["data"]["retry_after_ms"].as_u64().is_some_and(|ms| ms >= 1)
}

/// How many of the calls came too soon after failures.
fn refused(answers: &[Result<Value, Value>]) -> usize {
    answers.iter().filter(|answer| answer.as_ref().is_err_and(is_rate_limit)).count()
}

/// How often the cheap refusals are repeated, because one round of them is too short for the clock.
const CHEAP_ROUNDS: u8 = 10;

#[tokio::test]
async fn made_up_certificates_cost_little_and_their_sender_is_refused() {
    let server = TestServer::with_one_gateway(MANY_CALLS).await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let pki = Pki::new(ISSUER, now() - 86_400);
    let liars: Vec<TestIdentity> = (0..12).map(|n| made_up(&pki, &format!("liar{n}"))).collect();
    let attack: Vec<Value> = (0..1200).map(|n| liars[n % liars.len()].login1()).collect();
    // The same frames, refused before anybody looks at the certificate: what it costs to be asked at all.
    let mut cheap = attack.clone();
    cheap.iter_mut().for_each(|call| call["client_nonce"] = json!(""));

    let began = server.cpu_ticks();
    for round in 1..=CHEAP_ROUNDS {
        // These are failures, too: of another network each time.
        let answers = call_from(&server, [127, 60, round, 1], "auth.aid_login1", &cheap).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|error| error["code"] == -32602)));
    }
    let asked = (server.cpu_ticks() - began).max(1);

    let began = server.cpu_ticks();
    let honest = async {
        let socket = server.socket_from(BYSTANDER).await;
        for _ in 0..5 {
            log_in(&socket, &alice).await.expect("whoever has a certificate logs in meanwhile");
        }
    };
    let (answers, ()) = join(call_from(&server, ATTACKER, "auth.aid_login1", &attack), honest).await;
    let attacked = server.cpu_ticks() - began;

    assert!(answers.iter().all(Result::is_err), "nobody signed these certificates");
    let refused = refused(&answers);
    // A refusal costs next to nothing, so that it takes many to be measured: without the defence a certificate costs as much as more
    // than 200 of them.
    assert!(
        u64::from(CHEAP_ROUNDS) * attacked <= 100 * asked,
        "1200 made-up certificates cost {attacked} ticks, {CHEAP_ROUNDS} times as many plain refusals {asked}; {refused} were refused unseen"
    );
    assert!(refused >= 600, "{refused} of 1200 were refused unseen");

    // Only who has to prove something is refused there: a token is a proof.
    let socket = server.socket_from(ATTACKER).await;
    let welcome = socket.call("auth.connect", &hello(socket.nonce(), &tokens.access)).await;
    assert_eq!(welcome["status"], "ok");
}

#[tokio::test]
async fn made_up_hellos_cost_little_and_their_sender_is_refused() {
    const HELLOS: usize = 400;
    let server = TestServer::with_one_gateway("").await;
    let liar = FakePeer::under(&Pki::new("made-up.test", now() - 86_400), "made-up.test");

    let began = server.cpu_ticks();
    let errors = hellos_from(&server, BYSTANDER, HELLOS, |nonce| liar.hello("third.test", nonce)).await;
    let asked = (server.cpu_ticks() - began).max(1);
    assert!(errors.iter().all(|error| error["code"] == -32001), "they are not for this domain");

    let began = server.cpu_ticks();
    let errors = hellos_from(&server, ATTACKER, HELLOS, |nonce| liar.hello(&server.issuer, nonce)).await;
    let attacked = server.cpu_ticks() - began;
    let refused = errors.iter().filter(|error| is_rate_limit(error)).count();
    assert!(
        attacked <= 5 * asked,
        "{HELLOS} made-up hellos cost {attacked} ticks, plain refusals {asked}; {refused} were refused unseen"
    );
    assert!(refused >= 50, "{refused} of {HELLOS} were refused unseen");
    assert!(errors.iter().all(|error| is_rate_limit(error) || error["code"] == -32002), "{errors:?}");
}

#[tokio::test]
async fn refresh_tokens_and_names_cannot_be_tried_without_end() {
    let server = TestServer::with_one_gateway(MANY_CALLS).await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;

    // A refresh need not say whose token it is.
    let guesses: Vec<Value> = (0..400).map(|_| json!({ "refresh_token": random_hex(32) })).collect();
    let answers = call_from(&server, ATTACKER, "auth.refresh_token", &guesses).await;
    assert!(!answers.iter().flatten().any(|result| result["success"] == true));
    let guessed = refused(&answers);
    assert!(guessed >= 50, "{guessed} of 400 guesses were refused");

    // Every name is a key in the tables of the limits.
    let names: Vec<Value> = (0..400)
        .map(|n| json!({ "aid": aid(&format!("nobody{n}")), "cert": "none", "client_nonce": "n" }))
        .collect();
    let tried = refused(&call_from(&server, [127, 202, 1, 1], "auth.aid_login1", &names).await);
    assert!(tried >= 50, "{tried} of 400 names were refused");

    let socket = server.socket_from(BYSTANDER).await;
    let refreshed = socket.call("auth.refresh_token", &json!({ "refresh_token": tokens.refresh })).await;
    assert_eq!(refreshed["success"], true, "others do not notice");
}

#[tokio::test]
async fn a_thousand_agents_behind_one_address_log_in_with_the_default_limits() {
    const GROUPS: u8 = 100;
    let server = TestServer::with_one_gateway("").await;
    let server = &server;
    // A socket makes twenty calls before login: ten agents each. Registrations have a limit of their own by address.
    let registered = stream::iter((0..GROUPS).map(|group| async move {
        let socket = server.socket_from([127, 203, group % 4, 1]).await;
        let mut agents = Vec::new();
        for n in 0..10 {
            let (aid, key) = (aid(&format!("agent{group}x{n}")), Key::generate(Curve::P256));
            let params = json!({ "aid": aid, "public_key": public_key(&key), "curve": "P-256" });
            let cert = text(&socket.call("auth.create_aid", &params).await["cert"]);
            agents.push(TestIdentity { aid, key, cert });
        }
        socket.close().await;
        agents
    }));
    let groups: Vec<Vec<TestIdentity>> = registered.buffer_unordered(16).collect().await;

    let logins = stream::iter(groups.iter().map(|agents| async move {
        let socket = server.socket_from([127, 204, 1, 1]).await;
        let mut outcomes = Vec::new();
        for agent in agents {
            outcomes.push(log_in(&socket, agent).await);
        }
        socket.close().await;
        outcomes
    }));
    let outcomes: Vec<Vec<Result<Value, Value>>> = logins.buffer_unordered(16).collect().await;
    let outcomes = outcomes.concat();
    let failed: Vec<&Value> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {} failed: {:?}", failed.len(), outcomes.len(), failed.first());
    assert_eq!(outcomes.len(), 1000);
}
