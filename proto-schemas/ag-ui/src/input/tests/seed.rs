//! The examples of the protocol.

use super::*;

fn example(run: &str, content: Value) -> Value {
    json!({
        "threadId": "550e8400-e29b-41d4-a716-446655440000",
        "runId": run,
        "state": {},
        "messages": [{ "id": "msg-001", "role": "user", "content": content }],
        "tools": [],
        "context": [],
        "forwardedProps": { "runtime_mode": "chat" },
    })
}

#[test]
fn plain_text() {
    let input = strict(&example("run-001", json!("帮我查一下北京今天的天气"))).unwrap();
    assert_eq!((input.run_id.as_str(), input.mode), ("run-001", RuntimeMode::Chat));
    assert_eq!(input.turn.unwrap().text, "帮我查一下北京今天的天气");
}

#[test]
fn an_image_has_to_be_signed_by_us() {
    const URL: &str = "https://storage.example.com/agent-inputs/user-123/image.png?signature=xxx";
    let input = example(
        "run-002",
        json!([
            { "type": "text", "text": "这张图片里的内容是什么?" },
            { "type": "binary", "mimeType": "image/png", "url": URL },
        ]),
    );
    assert_eq!(refused(&input), "binary content url is not a valid signed URL");
    let json = input.to_string();
    let (rules, rule) = (InputRules::Strict, ClientTimeRule::Strict);
    let input =
        RunInput::parse(json.as_bytes(), rules, rule, &mut |attachment| attachment.url == URL).unwrap();
    assert_eq!(input.turn.unwrap().attachments[0].mime_type, "image/png");
}

#[test]
fn tools() {
    let mut input = example("run-003", json!("北京天气怎么样?"));
    let city = json!({ "city": { "type": "string", "description": "城市名称" } });
    input["tools"] = json!([{
        "name": "get_weather",
        "description": "获取指定城市的天气信息",
        "parameters": { "type": "object", "properties": city, "required": ["city"] },
    }]);
    assert_eq!(strict(&input).unwrap().tools[0]["name"], "get_weather");
}

#[test]
fn a_client_time_whose_two_times_differ() {
    let mut input = example("run-004", json!("帮我明天早上9点创建一个日历"));
    input["forwardedProps"]["client_time"] = json!({
        "device_timezone": "America/Los_Angeles",
        "client_now_iso": "2026-03-16T09:12:33-07:00",
        "client_epoch_ms": 1_773_658_353_000_i64,
    });
    let parsed = strict(&input).unwrap();
    let time = parsed.client_time.unwrap();
    assert_eq!(time.client_now_ms - time.client_epoch_ms, 19_200_000);
    assert!(!parsed.clocks_disagree);
    for (apart, disagree) in [(86_400_000, false), (86_400_001, true), (-86_400_001, true)] {
        input["forwardedProps"]["client_time"]["client_epoch_ms"] = json!(time.client_now_ms + apart);
        assert_eq!(strict(&input).unwrap().clocks_disagree, disagree, "{apart}");
    }
}
