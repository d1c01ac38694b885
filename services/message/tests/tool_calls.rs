//! Tool calls: sixty a minute and agent, counted where they are stored.

use super::two::two_processes;
use super::*;
use futures_util::future::join_all;
use kernel::codes;

/// The parameters of a tool call, or of what looks like one.
fn tool_call(to: &TestAgent, id: &str) -> Value {
    json!({
        "to": to.aid, "message_id": id, "payload": { "text": id }, "msg_subtype": "artifact_tool_call",
        "content_type": "artifact",
    })
}

fn with(mut params: Value, name: &str, value: Value) -> Value {
    params[name] = value;
    params
}

impl AgentDevice<'_> {
    async fn call_tool(&self, test: &TestWorld, to: &TestAgent, id: &str) -> Result<Value, RpcError> {
        self.call(test, "message.send", tool_call(to, id)).await
    }

    /// So many tool calls at once, all of which are accepted.
    async fn call_tools(&self, test: &TestWorld, to: &TestAgent, name: &str, many: usize) {
        let calls = (0..many).map(|n| self.call(test, "message.send", tool_call(to, &format!("{name}{n}"))));
        for (n, outcome) in join_all(calls).await.into_iter().enumerate() {
            assert_eq!(outcome.unwrap()["status"], "sent", "{name}{n}");
        }
    }
}

/// After how long a tool call that was refused may be sent again.
pub(super) fn wait_after(outcome: Result<Value, RpcError>) -> i64 {
    let error = outcome.unwrap_err();
    assert_eq!(error.code(), codes::RATE_LIMITED.code, "{error}");
    for (name, value) in [
        ("http_status", json!(429)),
        ("limit", json!(60)),
        ("window_ms", json!(60_000)),
        ("scope", json!("agent.tool_call")),
        ("retryable", json!(true)),
    ] {
        assert_eq!(error.data(name), Some(&value), "{name}");
    }
    error.data("retry_after_ms").and_then(Value::as_i64).unwrap()
}

#[tokio::test]
async fn sixty_pass_and_the_next_one_exactly_when_the_first_leaves_the_minute() {
    let (test, alice, carol) = two().await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    from.call_tool(&test, &carol, "first").await.unwrap();
    test.world.clock.advance_ms(10_000);
    from.call_tools(&test, &carol, "m", 59).await;

    assert_eq!(wait_after(from.call_tool(&test, &carol, "next").await), 50_000);
    test.world.clock.advance_ms(49_999);
    assert_eq!(wait_after(from.call_tool(&test, &carol, "next").await), 1);
    test.world.clock.advance_ms(1);
    from.call_tool(&test, &carol, "next").await.unwrap();
    assert_eq!(wait_after(from.call_tool(&test, &carol, "one more").await), 10_000);
    test.world.clock.advance_ms(10_000);
    from.call_tools(&test, &carol, "n", 59).await;
    assert_eq!(wait_after(from.call_tool(&test, &carol, "one more").await), 50_000);

    let rows = to.everything(&test).await;
    assert_eq!(seqs(&rows), (1..=120).collect::<Vec<_>>(), "what is refused gets no seq");
    assert!(!texts(&rows).contains(&"one more"), "and is not stored");
    assert!(
        rows.iter()
            .all(|row| row["msg_subtype"] == "artifact_tool_call" && row["content_type"] == "artifact")
    );
}

#[tokio::test]
async fn other_agents_responses_and_other_messages_are_not_limited() {
    let (test, alice, carol) = two().await;
    let bob = test.register("bobby").await;
    let from = AgentDevice { agent: &alice, device: "a" };
    from.call_tools(&test, &carol, "m", 60).await;
    let full = async || assert_eq!(wait_after(from.call_tool(&test, &carol, "more").await), 60_000);
    full().await;
    for n in 0..70 {
        let id = format!("response{n}");
        let response = with(tool_call(&carol, &id), "msg_subtype", json!("artifact_response"));
        from.call(&test, "message.send", response).await.unwrap();
        from.send(&test, &carol, &format!("text{n}")).await.unwrap();
    }
    full().await;
    AgentDevice { agent: &bob, device: "b" }.call_tools(&test, &carol, "b", 60).await;
}

#[tokio::test]
async fn a_call_counts_by_whatever_says_that_it_is_one() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    let by_artifact = json!({ "type": "artifact", "artifact": { "subtype": "tool_call" } });
    let by_headers = json!({ "protected_headers": { "msg_subtype": "artifact_tool_call" } });
    for n in 0..20 {
        from.call_tool(&test, &carol, &format!("subtype{n}")).await.unwrap();
        for (name, payload) in [("artifact", &by_artifact), ("headers", &by_headers)] {
            let params = json!({ "to": carol.aid, "message_id": format!("{name}{n}"), "payload": payload });
            from.call(&test, "message.send", params).await.unwrap();
        }
    }
    for payload in [by_artifact, by_headers] {
        let params = json!({ "to": carol.aid, "payload": payload });
        assert_eq!(wait_after(from.call(&test, "message.send", params).await), 60_000);
    }
}

#[tokio::test]
async fn what_is_refused_disturbs_nothing_else_that_is_stored_with_it() {
    let (test, alice, carol) = two().await;
    let bob = test.register("bobby").await;
    let (from, to) = (AgentDevice { agent: &alice, device: "a" }, AgentDevice { agent: &carol, device: "c" });
    let other = AgentDevice { agent: &bob, device: "b" };
    // Each of them three times, so that the same message is refused more than once in a commit.
    let calls = (0..240).map(async |n: usize| {
        let id = format!("m{}", n % 80);
        from.call_tool(&test, &carol, &id).await
    });
    let plain = (0..80).map(async |n: usize| {
        from.send(&test, &carol, &format!("plain{n}")).await.unwrap();
        other.call_tool(&test, &carol, &format!("b{}", n % 40)).await.unwrap();
    });
    let (calls, _) = tokio::join!(join_all(calls), join_all(plain));
    let count = |status: &str| {
        calls.iter().filter(|outcome| outcome.as_ref().is_ok_and(|sent| sent["status"] == status)).count()
    };
    assert_eq!((count("sent"), count("duplicate")), (60, 120));
    let refused = calls.into_iter().filter(Result::is_err).map(wait_after);
    assert_eq!(refused.collect::<Vec<_>>(), [60_000; 60]);
    assert_eq!(seqs(&to.everything(&test).await), (1..=180).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_message_that_was_sent_before_is_answered_and_not_counted() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    from.call_tools(&test, &carol, "m", 30).await;
    for _ in 0..3 {
        let again =
            (0..30).map(async |n: usize| from.call_tool(&test, &carol, &format!("m{n}")).await.unwrap());
        assert!(join_all(again).await.iter().all(|sent| sent["status"] == "duplicate"));
    }
    from.call_tools(&test, &carol, "n", 30).await;
    assert_eq!(wait_after(from.call_tool(&test, &carol, "more").await), 60_000);
    assert_eq!(
        from.call_tool(&test, &carol, "m7").await.unwrap()["status"],
        "duplicate",
        "also when it is full"
    );
    test.world.clock.advance_ms(60_000);
    assert_eq!(from.call_tool(&test, &carol, "more").await.unwrap()["status"], "sent", "it was not stored");
}

#[tokio::test]
async fn what_is_refused_or_fails_for_another_reason_is_not_counted() {
    let (test, alice, carol) = two().await;
    let nobody = TestAgent { aid: "nobody.aid.pub".to_owned(), key: alice.key.clone(), cert: String::new() };
    let from = AgentDevice { agent: &alice, device: "a" };
    refuse_poison(&test).await;
    for n in 0..3 {
        assert_eq!(code(from.call_tool(&test, &nobody, "m").await), codes::NOT_FOUND.code);
        let wrong = with(tool_call(&carol, "m"), "device_id", json!("no-such-device"));
        assert_eq!(
            code(from.call(&test, "message.send", wrong).await),
            codes::message::DEVICE_NOT_FOUND.code
        );
        let failed = from.call_tool(&test, &carol, &format!("poison{n}")).await;
        assert_eq!(code(failed), codes::UNAVAILABLE.code);
    }
    from.call_tools(&test, &carol, "m", 60).await;
    assert_eq!(wait_after(from.call_tool(&test, &carol, "more").await), 60_000);
}

#[tokio::test]
async fn messages_with_a_ttl_and_for_one_connection_count_as_well() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    let volatile = |id: &str| with(tool_call(&carol, id), "ttl", json!(120));
    let queued = |id: &str| with(tool_call(&carol, id), "delivery_mode", json!("queue"));
    from.call_tools(&test, &carol, "m", 40).await;
    for n in 0..10 {
        for params in [volatile(&format!("volatile{n}")), queued(&format!("queued{n}"))] {
            from.call(&test, "message.send", params).await.unwrap();
        }
    }
    let plain = tool_call(&carol, "more");
    for params in [plain, volatile("more"), queued("more")] {
        assert_eq!(wait_after(from.call(&test, "message.send", params).await), 60_000);
    }
    let again = from.call(&test, "message.send", volatile("volatile3")).await.unwrap();
    assert_eq!(again["status"], "duplicate");

    test.world.clock.advance_ms(60_000);
    from.call_tools(&test, &carol, "n", 60).await;
    let again = from.call(&test, "message.send", volatile("volatile3")).await.unwrap();
    assert_eq!(again["status"], "duplicate", "a minute later it is still known");
    assert_eq!(wait_after(from.call(&test, "message.send", volatile("more")).await), 60_000);
}

#[tokio::test]
async fn the_count_survives_a_restart_and_is_removed_when_the_agent_is_quiet() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    from.call_tools(&test, &carol, "m", 60).await;
    let test = test.restart().await;
    test.world.clock.advance_ms(59_999);
    let service = open_again(&test).await;
    let counted = async || -> i64 {
        service.remove_old().await;
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM tool_call");
        count.fetch_one(service.store.db().read()).await.unwrap()
    };
    assert_eq!(counted().await, 1);
    assert_eq!(wait_after(from.call_tool(&test, &carol, "more").await), 1);
    test.world.clock.advance_ms(1);
    assert_eq!(counted().await, 0);
    from.call_tools(&test, &carol, "n", 60).await;
    assert_eq!(wait_after(from.call_tool(&test, &carol, "more").await), 60_000);
}

#[tokio::test]
async fn two_processes_count_together() {
    let Some((test, one, two)) = two_processes().await else { return };
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    one.join(&carol, "c").await;
    let calls = (0..120).map(|n| {
        let process = if n % 2 == 0 { one.clone() } else { two.clone() };
        let (caller, params) = (alice.caller(), tool_call(&carol, &format!("m{n}")));
        async move { process.call(caller, "message.send", params).await }
    });
    let outcomes = join_all(calls).await;
    let refused: Vec<i64> = outcomes.into_iter().filter(Result::is_err).map(wait_after).collect();
    assert_eq!(refused, [60_000; 60]);
    assert_eq!(one.found(&carol, "c").await.1, (1..=60).collect::<Vec<_>>());

    test.world.clock.advance_ms(60_000);
    for n in 0..60 {
        let params = tool_call(&carol, &format!("n{n}"));
        let (a, b) = tokio::join!(
            one.call(alice.caller(), "message.send", params.clone()),
            two.call(alice.caller(), "message.send", params)
        );
        let duplicates = [a.unwrap(), b.unwrap()].iter().filter(|sent| sent["status"] == "duplicate").count();
        assert_eq!(duplicates, 1, "the same message through both is counted once");
    }
    for process in [&one, &two] {
        let params = tool_call(&carol, "more");
        assert_eq!(wait_after(process.call(alice.caller(), "message.send", params).await), 60_000);
    }
}
