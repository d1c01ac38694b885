//! `client_signature`: a call that its caller signed is checked wherever it is made.

use ring::digest;
use serde_json::json;

use crate::support::agent::{ConnectedAgent, TestIdentity, text};
use crate::support::{TestServer, now, printed, split, until};

/// A signed call, written out: `params` goes over the wire as it stands, `canonical` is what the signer hashed.
pub(super) struct SignedCall<'a> {
    who: &'a TestIdentity,
    method: &'a str,
    params: &'a str,
    canonical: &'a str,
    aid: &'a str,
    timestamp: String,
}

impl<'a> SignedCall<'a> {
    pub(super) fn new(
        who: &'a TestIdentity,
        method: &'a str,
        params: &'a str,
        canonical: &'a str,
    ) -> SignedCall<'a> {
        SignedCall { who, method, params, canonical, aid: &who.aid, timestamp: now().to_string() }
    }

    /// The call as a frame.
    pub(super) fn frame(&self) -> String {
        let hash = hex::encode(digest::digest(&digest::SHA256, self.canonical.as_bytes()));
        let signature = self.who.sign(&format!("{}|{}|{}|{hash}", self.method, self.aid, self.timestamp));
        let proof = json!({
            "aid": self.aid, "cert_fingerprint": self.who.certificate().fingerprint(), "timestamp": self.timestamp,
            "params_hash": hash, "signature": signature,
        });
        let open = self.params.trim_end().strip_suffix('}').expect("an object");
        let comma = if open.trim() == "{" { "" } else { "," };
        let params = format!("{open}{comma}\"client_signature\":{proof}}}");
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}","params":{params}}}"#, self.method)
    }
}

const METHOD: &str = "auth.download_cert";
const PLAIN: &str = r#"{"cert_sn":"root"}"#;

async fn code(agent: &ConnectedAgent, frame: &str) -> i64 {
    let answer = agent.answer_to(frame).await;
    answer["error"]["code"].as_i64().unwrap_or(0)
}

#[tokio::test]
async fn a_true_signature_passes_however_numbers_and_strings_are_written() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let cases = [
        (PLAIN, PLAIN),
        (r#"{ "cert_sn" : "root" }"#, PLAIN),
        (
            r#"{"z":1.0,"a":1e3,"cert_sn":"root","n":-0.50}"#,
            r#"{"a":1e3,"cert_sn":"root","n":-0.50,"z":1.0}"#,
        ),
        (
            r#"{"cert_sn":"root","t":"\u4f60\u597d é \/ \u0001 \n \""}"#,
            "{\"cert_sn\":\"root\",\"t\":\"你好 é / \\u0001 \\n \\\"\"}",
        ),
        (
            r#"{"nested":{"b":[{"y":2,"x":1.10}],"a":null},"cert_sn":"root"}"#,
            r#"{"cert_sn":"root","nested":{"a":null,"b":[{"x":1.10,"y":2}]}}"#,
        ),
        (r#"{"_trace":{"trace_id":"ab"},"cert_sn":"root"}"#, PLAIN),
        (
            "{\"\u{1f600}\":1,\"\u{ff01}\":2,\"cert_sn\":\"root\"}",
            "{\"cert_sn\":\"root\",\"\u{ff01}\":2,\"\u{1f600}\":1}",
        ),
        (
            "{\"\u{1f600}\":1,\"\u{ff01}\":2,\"cert_sn\":\"root\"}",
            "{\"cert_sn\":\"root\",\"\u{1f600}\":1,\"\u{ff01}\":2}",
        ),
    ];
    for (params, canonical) in cases {
        let answer =
            alice.answer_to(&SignedCall::new(&alice.identity, METHOD, params, canonical).frame()).await;
        assert!(answer.get("result").is_some(), "{params}: {answer}");
    }
}

#[tokio::test]
async fn a_signature_over_something_else_is_refused() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.register("carol").await);
    let good = || SignedCall::new(&alice.identity, METHOD, PLAIN, PLAIN);
    let true_frame = good().frame();
    let wrong = [
        SignedCall { canonical: r#"{"cert_sn":"badc0de"}"#, ..good() }.frame(),
        SignedCall { params: r#"{"cert_sn":"root","more":1}"#, ..good() }.frame(),
        SignedCall {
            params: r#"{"cert_sn":"root","n":1.0}"#,
            canonical: r#"{"cert_sn":"root","n":1}"#,
            ..good()
        }
        .frame(),
        SignedCall { who: &carol, aid: alice.aid(), ..good() }.frame(),
        SignedCall::new(&carol, METHOD, PLAIN, PLAIN).frame(),
        SignedCall { timestamp: (now() - 301 - 60).to_string(), ..good() }.frame(),
        SignedCall { timestamp: (now() + 301 + 60).to_string(), ..good() }.frame(),
        SignedCall { timestamp: "yesterday".to_owned(), ..good() }.frame(),
        SignedCall { timestamp: "NaN".to_owned(), ..good() }.frame(),
        true_frame.replace(METHOD, "meta.trust_roots"),
        true_frame.replace("\"signature\":\"M", "\"signature\":\"N"),
        true_frame.replace("\"signature\":\"", "\"signature\":\"%"),
        true_frame.replace("params_hash", "hash"),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{METHOD}","params":{{"cert_sn":"root","client_signature":"me"}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{METHOD}","params":{{"cert_sn":"root","\u0063lient_signature":{{}}}}}}"#
        ),
    ];
    for frame in wrong {
        assert_eq!(code(&alice, &frame).await, -32051, "{frame}");
    }
    let answer = alice.answer_to(&SignedCall { who: &carol, aid: alice.aid(), ..good() }.frame()).await;
    assert_eq!(answer["error"]["data"]["kind"], "client_signature_invalid");
    assert!(
        text(&answer["error"]["message"]).starts_with("client signature verification failed"),
        "{answer}"
    );
    assert_eq!(code(&alice, &true_frame).await, 0, "the connection goes on");
}

#[tokio::test]
async fn the_gateway_checks_what_it_answers_itself_too() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for method in ["meta.status", "meta.ping", "meta.capabilities", "rpc.discover", "meta.trust_roots"] {
        assert_eq!(
            code(&alice, &SignedCall::new(&alice.identity, method, "{}", "{}").frame()).await,
            0,
            "{method}"
        );
        let forged = SignedCall::new(&alice.identity, method, "{}", r#"{"other":1}"#).frame();
        assert_eq!(code(&alice, &forged).await, -32051, "{method}");
    }
}

#[tokio::test]
async fn an_unsigned_call_passes() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    alice.call(METHOD, &json!({ "cert_sn": "root" })).await;
}

#[tokio::test]
async fn only_the_current_certificate_signs_calls() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let before = SignedCall::new(&alice.identity, METHOD, PLAIN, PLAIN).frame();
    assert_eq!(code(&alice, &before).await, 0);

    let renewed = server.rekey(&alice.identity).await;
    assert_eq!(
        code(&alice, &SignedCall::new(&renewed, METHOD, PLAIN, PLAIN).frame()).await,
        0,
        "at once, and on the same connection"
    );
    let old = SignedCall::new(&alice.identity, METHOD, PLAIN, PLAIN).frame();
    let refused = || async { (code(&alice, &old).await == -32051).then_some(()) };
    // A gateway in another process than the authority may hear of it a moment later.
    if split() {
        until("the one before signs nothing any more", refused).await;
    }
    assert!(refused().await.is_some(), "replaced");
    assert_eq!(code(&alice, &SignedCall::new(&renewed, METHOD, PLAIN, PLAIN).frame()).await, 0);
}

#[tokio::test]
async fn a_revoked_certificate_signs_nothing_any_more() {
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let frame = SignedCall::new(&alice.identity, METHOD, PLAIN, PLAIN).frame();
    let output = server.aund(&["certs", "revoke", alice.aid()]).await;
    assert!(output.status.success(), "{}", printed(&output.stderr));
    // The socket is being closed. A call that still gets through is refused; most find it closed.
    let _ = alice.try_send(frame.into()).await;
    let closed = alice.closed().await;
    assert_eq!(closed.code, 4001);
    let answers: Vec<_> = alice.kept().await.into_iter().filter(|frame| frame.get("id").is_some()).collect();
    assert!(answers.iter().all(|answer| answer["error"]["code"] == -32050), "{answers:?}");
}
