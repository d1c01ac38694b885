//! The table of what the example back end does, through a runner and the log.

use serde_json::json;

use super::process::{RunnerWords, WorkedRun, payloads};
use crate::runs::client::TestManager;

#[tokio::test]
async fn each_word_of_the_example_does_what_the_table_says() {
    let manager = TestManager::shared().await;
    let work = WorkedRun::begin(&manager, "/tool", &RunnerWords::default()).await;
    assert_eq!(work.completed(&work.command).await["reply"], "You said: /tool");

    let zoned = |text: &str| json!({ "prompt": text, "timezone": "Asia/Shanghai" });
    for (text, reply) in [
        ("what time is it? /tool", "You said: what time is it? /tool"),
        ("/calendar", "You said: /calendar"),
        ("/calendar bare", "You said: /calendar bare"),
        ("/ui", "You said: /ui"),
        ("/image", "0 images\nYou said: /image"),
        ("/secret", "You said: /secret"),
    ] {
        let command = work.submit("turn", zoned(text)).await;
        assert_eq!(work.completed(&command).await["reply"], reply, "{text}");
    }
    let fail = work.submit("turn", zoned("/fail")).await;
    assert_eq!(work.ended(&fail).await["failureMessage"], "asked to fail");
    assert_eq!(work.outcome(&fail).await, ("failed".to_owned(), "backend-failed".to_owned()));

    let events = work.events().await;
    let tools: Vec<String> = payloads(&events, "tool_call")
        .into_iter()
        .map(|tool| format!("{} {} {} {}", tool["toolName"], tool["status"], tool["args"], tool["output"]))
        .collect();
    let expected = [
        ("\"clock\" \"started\" {\"timezone\":\"UTC\"}", "null"),
        ("\"clock\" \"completed\" null", "[UTC]\""),
        ("\"clock\" \"started\" {\"timezone\":\"Asia/Shanghai\"}", "null"),
        ("\"clock\" \"completed\" null", "+08:00[Asia/Shanghai]\""),
        ("\"calendar_write\" \"started\" {\"event_timezone\":\"Asia/Shanghai\"", "null"),
        ("\"calendar_write\" \"completed\" null", "\"written in Asia/Shanghai\""),
        ("\"calendar_write\" \"started\" {\"start\":", "null"),
        ("\"calendar_write\" \"failed\" null", "\"event_timezone is required\""),
    ];
    assert_eq!(tools.len(), expected.len(), "{tools:#?}");
    for (tool, (begin, end)) in tools.iter().zip(expected) {
        assert!(tool.starts_with(begin) && tool.ends_with(end), "{tool}");
    }
    let status = payloads(&events, "backend_status");
    assert_eq!(status.iter().filter(|one| one["stage"] == "router").count(), 2 * 8);
    assert_eq!(status.iter().filter(|one| one["stage"] == "worker").count(), 2 * 8);
    let hints = status.iter().find(|one| one["phase"] == "ui-hints").expect("one turn has hints");
    assert_eq!(hints["ui_hints"]["body"], "You said: /ui");
}

#[tokio::test]
async fn no_secret_of_a_runner_is_in_the_log_however_it_is_said() {
    let manager = TestManager::shared().await;
    let secret = "correct horse/battery";
    let how = RunnerWords { credential: Some(format!("{secret}\n")), ..RunnerWords::default() };
    let work = WorkedRun::begin(&manager, "/secret", &how).await;
    let reply = work.completed(&work.command).await["reply"].clone();
    assert_eq!(reply, "PROVIDER_API_KEY=[redacted]\nYou said: /secret");

    // Another program says it whole, cut in two, in base64, percent-encoded, and on standard error.
    let script = r#"read turn; key=$PROVIDER_API_KEY
        part() { echo "{\"type\":\"text\",\"itemId\":\"m\",\"delta\":\"$1\"}"; }
        part "whole $key, "; part "cut $(echo "$key" | cut -c1-9)"; part "$(echo "$key" | cut -c10-), "
        part "base64 $(printf %s "user:$key" | base64), "; part "encoded correct%20horse%2fbattery."
        echo "it is $key" >&2
        echo "{\"type\":\"tool\",\"callId\":\"c\",\"name\":\"x\",\"status\":\"completed\",\"output\":{\"key\":[\"$key\"]}}"
        echo "{\"type\":\"done\",\"status\":\"failed\",\"message\":\"$key is wrong\"}"; read more"#;
    let work = WorkedRun::begin(&manager, "say it", &how.with_program(script)).await;
    let ended = work.ended(&work.command).await;
    assert_eq!(ended["failureMessage"], "[redacted] is wrong");
    let events = work.events().await;
    let said = super::process::said_in(&events);
    let (plain, rest) = said.split_once("base64 ").expect("it is said");
    assert_eq!(plain, "whole [redacted], cut [redacted], ");
    assert!(rest.contains("[redacted]") && rest.ends_with("encoded [redacted]."), "{said}");
    let log =
        format!("{events:?} {} {}", work.back_end.result(&work.run, &work.command).await, work.runner.log());
    for form in [
        secret,
        "correct horse",
        "Y29ycmVjdCBob3JzZ",
        "NvcnJlY3QgaG9yc2",
        "jb3JyZWN0IGhvcnNl",
        "correct%20horse",
    ] {
        assert!(!log.contains(form), "{form} in {log}");
    }
    assert_eq!(payloads(&events, "tool_call")[0]["output"], json!({ "key": ["[redacted]"] }));
}
