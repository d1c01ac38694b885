//! `federation.relay`: after hello a gateway is trusted about who of its own domain is calling, and nothing else.

use proto_schemas::Method;
use serde_json::{Value, json};

use super::fake_peer::FakePeer;
use super::words;
use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, random_hex};
use crate::support::domain::DomainPair;
use crate::support::socket::TestSocket;

/// A real domain, a peer that is the test, and somebody to write to.
pub struct RelayTest {
    pub pair: DomainPair,
    pub who: FakePeer,
    pub carol: ConnectedAgent,
}

impl RelayTest {
    pub async fn start(settings: &str) -> RelayTest {
        RelayTest::between(DomainPair::with(settings, "").await).await
    }

    /// With domains that other tests use at the same time.
    async fn shared() -> RelayTest {
        RelayTest::between(DomainPair::shared().await).await
    }

    async fn between(pair: DomainPair) -> RelayTest {
        let carol = pair.near.agent("carol").await;
        RelayTest { who: FakePeer::of(&pair.far), carol, pair }
    }

    pub fn near(&self) -> &TestServer {
        &self.pair.near
    }

    pub fn message(&self, words: &str) -> Value {
        self.who.message("alice", self.carol.aid(), words)
    }

    /// An honest message with one thing changed.
    fn but(&self, pointer: &str, value: Value) -> Value {
        let mut message = self.message("hostile");
        set(&mut message, pointer, value);
        message
    }

    /// Whatever happened before: an honest call on another link still works.
    pub async fn honest_callers_are_unharmed(&self, before: &[&str]) {
        let link = self.who.link(self.near()).await;
        let relayed = link.call("federation.relay", &self.message("honest")).await;
        assert_eq!(relayed["ok"], true, "{relayed}");
        let mut expected = before.to_vec();
        expected.push("honest");
        assert_eq!(words(&self.carol).await, expected);
    }
}

/// Puts a value at a JSON pointer, where its parent is an object.
pub fn set(target: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    target.pointer_mut(parent).expect("the parent is there")[name] = value;
}

/// Why a relay was refused.
async fn refusal(link: &TestSocket, relay: &Value) -> Value {
    let error = link.call_error("federation.relay", relay).await;
    assert!(error["data"]["reason"].is_string(), "each is refused with its reason: {error}");
    error
}

#[tokio::test]
async fn a_message_is_stored_once_and_says_who_wrote_it() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    let message = test.message("hello");
    let first = link.call("federation.relay", &message).await;
    let again = link.call("federation.relay", &message).await;
    assert_eq!((&first["ok"], &first["relay_id"]), (&json!(true), &message["relay_id"]), "{first}");
    assert_eq!(first, again, "the same relay gets the same answer");
    let received = super::next(&test.carol, "event/message.received").await;
    assert_eq!(received["from"], "alice.far.test", "{received}");
    assert_eq!(words(&test.carol).await, ["hello"]);
}

#[tokio::test]
async fn how_the_method_ended_is_inside_the_result() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    let nobody = format!("nobody1.{}", test.near().issuer);
    let relayed = link.call("federation.relay", &test.who.message("alice", &nobody, "hello")).await;
    let local = test
        .carol
        .call_error("message.send", &json!({ "to": nobody, "payload": { "type": "text", "text": "x" } }))
        .await;
    assert_eq!((&relayed["ok"], &relayed["error"]["code"]), (&json!(false), &local["code"]), "{relayed}");
}

#[tokio::test]
async fn nobody_speaks_for_an_agent_of_another_domain() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    let ours = test.carol.aid().to_owned();
    for aid in ["alice.third.test", &ours, "alice.far.test.evil", "alice.sub.far.test", "far.test", ""] {
        refusal(&link, &test.but("/caller/aid", json!(aid))).await;
    }
    for caller in [Value::Null, json!({}), json!("alice.far.test"), json!({ "type": "aid" })] {
        refusal(&link, &test.but("/caller", caller)).await;
    }
    for kind in ["service", "operator", "", "unauthenticated"] {
        refusal(&link, &test.but("/caller/type", json!(kind))).await;
    }
    let mut unnamed = test.message("hostile");
    unnamed.as_object_mut().expect("an object").remove("caller");
    refusal(&link, &unnamed).await;
    test.honest_callers_are_unharmed(&[]).await;
}

#[tokio::test]
async fn parameters_name_nobody_but_the_caller_as_the_one_who_acts() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    for actor in [test.carol.aid(), "bobb.far.test", "alice.third.test"] {
        refusal(&link, &test.but("/params/from", json!(actor))).await;
        refusal(&link, &test.but("/params/client_signature", json!({ "aid": actor, "signature": "AA==" })))
            .await;
    }
    let mut honest = test.message("from me");
    set(&mut honest, "/params/from", json!("alice.far.test"));
    assert_eq!(link.call("federation.relay", &honest).await["ok"], true);
    test.honest_callers_are_unharmed(&["from me"]).await;
}

#[tokio::test]
async fn reserved_members_are_removed() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    let mut message = test.message("plain");
    for (name, value) in [
        ("_auth", json!({ "aid": test.carol.aid(), "role": "operator" })),
        ("_federation", json!({ "from_issuer": test.near().issuer })),
        ("_caller_id", json!("message")),
        ("_notify", json!({ "from_aid": test.carol.aid() })),
        ("_route", json!({ "aids": ["dave.near.test"] })),
        ("_trusted_internal_caller_id", json!("group")),
    ] {
        set(&mut message, &format!("/params/{name}"), value.clone());
        set(&mut message, &format!("/{name}"), value);
    }
    assert_eq!(link.call("federation.relay", &message).await["ok"], true);
    let page = test.carol.call("message.pull", &json!({ "after_seq": 0 })).await;
    let row = &page["messages"][0];
    assert_eq!((&row["from"], &row["payload"]["text"]), (&json!("alice.far.test"), &json!("plain")), "{row}");
    for name in ["_auth", "_federation", "_caller_id", "_route", "_trusted_internal"] {
        assert!(!page.to_string().contains(name), "{name} in {page}");
    }
}

#[tokio::test]
async fn nothing_is_relayed_onward_and_nothing_comes_back() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    for target in ["dave.third.test", "bobb.far.test", "dave.third.test.near.test", "near.test", ""] {
        refusal(&link, &test.but("/params/to", json!(target))).await;
    }
    for hop in [json!(0), json!(2), json!(-1), json!("1"), Value::Null, json!(1.5)] {
        refusal(&link, &test.but("/hop", hop)).await;
    }
    for depth in [json!(3), json!(4_000_000_000_u64), json!(-1)] {
        refusal(&link, &test.but("/depth", depth)).await;
    }
    let mut hopless = test.message("hostile");
    hopless.as_object_mut().expect("an object").remove("hop");
    refusal(&link, &hopless).await;
    test.honest_callers_are_unharmed(&[]).await;
}

#[tokio::test]
async fn only_what_may_cross_is_called() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    let is_closed = |method: &&Method| !method.federation.is_some_and(|rule| rule.agents);
    let closed = proto_schemas::methods().iter().filter(is_closed);
    let unknown = [
        ("proxy", "call"),
        ("push", "offline_message"),
        ("nonsense", "send"),
        ("", "send"),
        ("message", "no_such_method"),
        ("message", ""),
        ("message", "send.more"),
        ("message.thought", "put"),
    ];
    for (namespace, method) in closed.filter_map(|method| method.name.split_once('.')).chain(unknown) {
        let mut call = test.but("/namespace", json!(namespace));
        set(&mut call, "/method", json!(method));
        refusal(&link, &call).await;
    }
    test.honest_callers_are_unharmed(&[]).await;
}

#[tokio::test]
async fn an_event_is_accepted_about_its_own_domain_only() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    let event = |name: &str, payload: Value| {
        json!({
            "relay_id": random_hex(16), "kind": "event", "event": name, "event_id": random_hex(8), "hop": 1, "depth": 0,
            "targets": { "aids": [test.carol.aid()] }, "payload": payload,
        })
    };
    for (name, payload) in [
        ("gateway.disconnect", json!({ "code": 4000, "reason": "evil" })),
        ("client.offline", json!({ "aid": test.carol.aid() })),
        ("message.received", json!({ "from": "alice.far.test", "to": test.carol.aid(), "seq": 1 })),
        ("push.offline_message", json!({})),
        ("ca.cert_revoked", json!({ "aid": test.carol.aid() })),
        ("", json!({})),
        ("message.ack", json!({ "to": "dave.third.test", "ack_seq": 1 })),
        ("message.ack", json!({ "to": test.carol.aid(), "ack_seq": 1 })),
        ("app.typing", json!({ "_notify": { "from_aid": test.carol.aid() } })),
        ("app.typing", json!({ "n": 1 })),
    ] {
        let outcome = link.try_call("federation.relay", &event(name, payload)).await;
        assert!(
            outcome.as_ref().is_err_and(|error| error["data"]["reason"].is_string()),
            "{name}: {outcome:?}"
        );
    }
    let honest = event("app.typing", json!({ "n": 7, "_notify": { "from_aid": "alice.far.test" } }));
    link.call("federation.relay", &honest).await;
    let heard = test.carol.next_event().await;
    assert_eq!((&heard["method"], &heard["params"]["n"]), (&json!("event/app.typing"), &json!(7)), "{heard}");
}

#[tokio::test]
async fn an_event_for_many_counts_as_many() {
    let test = RelayTest::start("federation.relays_per_second = 10").await;
    let link = test.who.link(test.near()).await;
    let event = |agents: usize| {
        let payload = json!({ "n": agents, "_notify": { "from_aid": "alice.far.test" } });
        json!({
            "relay_id": random_hex(16), "kind": "event", "event": "app.typing", "event_id": random_hex(8), "hop": 1,
            "depth": 0, "targets": { "aids": vec![test.carol.aid(); agents] }, "payload": payload,
        })
    };
    let error = refusal(&link, &event(11)).await;
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32029), &json!("rate")), "{error}");
    link.call("federation.relay", &event(10)).await;
    assert_eq!(test.carol.next_event().await["params"]["n"], 10);
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let test = RelayTest::start("federation.relays_per_agent = 100000").await;
    let link = test.who.link(test.near()).await;
    refusal(&link, &test.but("/relay_id", json!("x".repeat(65)))).await;
    refusal(&link, &test.but("/relay_id", json!(""))).await;

    let items: Vec<Value> = (0..201).map(|_| test.message("hostile")).collect();
    let batch = json!({ "batch_id": random_hex(8), "items": items });
    let error = link.call_error("federation.relay_batch", &batch).await;
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32012), &json!("batch")), "{error}");
    assert!(words(&test.carol).await.is_empty());

    // Beyond the frame limit there is no answer to give, only an end.
    let socket = test.who.link(test.near()).await;
    let huge = test.but("/params/payload/text", json!("x".repeat(17 << 20)));
    let frame =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "federation.relay", "params": huge }).to_string();
    let _ = socket.try_send(tokio_tungstenite::tungstenite::Message::text(frame)).await;
    let closed = socket.closed().await;
    assert!([1009, 1006].contains(&closed.code), "{closed:?}");
    test.honest_callers_are_unharmed(&[]).await;
}

#[tokio::test]
async fn one_bad_item_spoils_no_batch() {
    let test = RelayTest::shared().await;
    let link = test.who.link(test.near()).await;
    link.call("federation.relay", &test.message("0")).await;
    let items = [test.message("1"), test.but("/caller/aid", json!("alice.third.test")), test.message("2")];
    let batch = json!({ "batch_id": "b-1", "items": items });
    let answer = link.call("federation.relay_batch", &batch).await;
    let results = answer["results"].as_array().expect("results");
    assert_eq!(answer["batch_id"], "b-1");
    let ids: Vec<&Value> = results.iter().map(|result| &result["relay_id"]).collect();
    assert_eq!(ids, items.iter().map(|item| &item["relay_id"]).collect::<Vec<_>>(), "in their order");
    let ok: Vec<&Value> = results.iter().map(|result| &result["ok"]).collect();
    assert_eq!(ok, [true, false, true]);
    assert_eq!(words(&test.carol).await, ["0", "1", "2"]);
}

#[tokio::test]
async fn a_flood_is_slowed_and_others_are_not() {
    let test = RelayTest::start("federation.relays_per_agent = 5").await;
    let link = test.who.link(test.near()).await;
    let flood: Vec<Value> = (0..400).map(|_| test.message("flood")).collect();
    let outcomes = link.call_many("federation.relay", &flood).await;
    let limited: Vec<&Value> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(limited.len() > 100, "most of a flood is turned away");
    for error in limited {
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32029), &json!("rate")), "{error}");
    }
    let stored = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
    assert!(stored.clone().count() >= 5, "what is within the limit is not");
    for relayed in stored {
        assert_eq!(relayed["ok"], true, "{relayed}");
    }
    let other = test.who.message("bobb", test.carol.aid(), "calm");
    assert_eq!(
        link.call("federation.relay", &other).await["ok"],
        true,
        "another agent of that domain is not"
    );
}
