//! What is just allowed, and what is one too many.

use super::*;

fn with_content(content: Value) -> Value {
    let mut input = whole();
    input["messages"] = json!([{ "id": "m1", "role": "user", "content": content }]);
    input
}

#[test]
fn bytes() {
    let empty = with_content(json!("hi")).to_string();
    for (bytes, accepted) in [(MOST_INPUT_BYTES, true), (MOST_INPUT_BYTES + 1, false)] {
        let json = format!("{empty}{}", " ".repeat(bytes - empty.len()));
        let (rules, rule) = (InputRules::Strict, ClientTimeRule::Strict);
        let parsed = RunInput::parse(json.as_bytes(), rules, rule, &mut |_| false);
        assert_eq!(parsed.is_ok(), accepted, "{bytes}");
    }
    let nonsense = "x".repeat(MOST_INPUT_BYTES + 1);
    let parsed =
        RunInput::parse(nonsense.as_bytes(), InputRules::Strict, ClientTimeRule::Strict, &mut |_| false);
    assert_eq!(parsed.unwrap_err().detail, "RunAgentInput payload exceeds size limit");
}

#[test]
fn ids() {
    for (id, accepted) in [
        ("550E8400-E29B-41D4-A716-446655440000", true),
        ("00000000-0000-0000-0000-000000000000", true),
        ("", false),
        ("550e8400e29b41d4a716446655440000", false),
        ("{550e8400-e29b-41d4-a716-446655440000}", false),
        ("550e8400-e29b-41d4-a716-44665544000g", false),
        ("550e8400-e29b-41d4-a716-4466554400000", false),
        ("550e8400-e29b-41d4-a716+446655440000", false),
    ] {
        let mut input = whole();
        input["threadId"] = json!(id);
        let parsed = strict(&input);
        assert_eq!(parsed.is_ok(), accepted, "{id}");
        if let Ok(parsed) = parsed {
            assert_eq!(parsed.thread_id, id.to_lowercase());
            assert_eq!(parsed.normalized["threadId"], id.to_lowercase());
        }
    }
    for (length, accepted) in [(0, false), (1, true), (128, true), (129, false)] {
        let mut input = whole();
        input["runId"] = "𝄞".repeat(length).into();
        assert_eq!(strict(&input).is_ok(), accepted, "{length}");
    }
}

#[test]
fn messages() {
    for (count, accepted) in [(200, true), (201, false)] {
        let mut input = with_content(json!("hi"));
        let history = vec![json!({ "id": "h", "role": "assistant" }); count - 1];
        input["messages"].as_array_mut().unwrap().extend(history);
        assert_eq!(strict(&input).is_ok(), accepted, "{count}");
    }
}

#[test]
fn text() {
    let blocks = |first, second| {
        let text = |count| json!({ "type": "text", "text": "𝄞".repeat(count) });
        with_content(json!([text(first), text(second)]))
    };
    assert!(strict(&with_content("𝄞".repeat(10_000).into())).is_ok());
    assert_eq!(
        refused(&with_content("𝄞".repeat(10_001).into())),
        "RunAgentInput user message text exceeds limit"
    );
    assert!(strict(&blocks(4_000, 6_000)).is_ok());
    assert_eq!(refused(&blocks(4_000, 6_001)), "RunAgentInput user message text exceeds limit");
}

#[test]
fn attachments() {
    let binary = json!({ "type": "binary", "mimeType": "image/png", "url": "https://signed/1" });
    assert_eq!(strict(&with_content(json!(vec![&binary; 3]))).unwrap().turn.unwrap().attachments.len(), 3);
    assert_eq!(refused(&with_content(json!(vec![&binary; 4]))), "Too many attachments");
}

#[test]
fn attachments_are_images() {
    let url = |mime_type: Value| json!({ "type": "url", "value": "https://signed/1", "mimeType": mime_type });
    let (data, image, signed) = (
        "binary content data is not allowed",
        "binary content requires image mimeType",
        "binary content requires url",
    );
    for (block, sentence) in [
        (json!({ "type": "binary", "mimeType": "image/png", "data": "aGk=" }), data),
        (json!({ "type": "binary", "url": "https://signed/1" }), image),
        (json!({ "type": "binary", "mimeType": "image/", "url": "https://signed/1" }), image),
        (json!({ "type": "binary", "mimeType": "é", "url": "https://signed/1" }), image),
        (json!({ "type": "binary", "mimeType": "image/png" }), signed),
        (json!({ "type": "binary", "mimeType": "image/png", "url": "" }), signed),
        (
            json!({ "type": "image", "source": { "type": "data", "value": "aGk=", "mimeType": "image/png" } }),
            data,
        ),
        (json!({ "type": "audio", "source": { "type": "data", "value": "aGk=" } }), data),
        (json!({ "type": "image", "source": url(json!("application/pdf")) }), image),
        (json!({ "type": "audio", "source": url(json!("audio/mp3")) }), image),
        (json!({ "type": "video", "source": url(json!("image/gif")) }), image),
        (json!({ "type": "document", "source": url(json!(null)) }), image),
        (json!({ "type": "image", "source": { "type": "file", "value": "file-1" } }), signed),
    ] {
        assert_eq!(refused(&with_content(json!([block]))), sentence, "{block}");
    }
    for (mime_type, read) in [(json!("IMAGE/PNG"), "IMAGE/PNG"), (json!(null), "image/*")] {
        let input = with_content(json!([{ "type": "image", "source": url(mime_type) }]));
        assert_eq!(strict(&input).unwrap().turn.unwrap().attachments[0].mime_type, read);
    }
}

#[test]
fn a_turn_says_something() {
    let binary = json!({ "type": "binary", "mimeType": "image/png", "url": "https://signed/1" });
    let text = |text| json!({ "type": "text", "text": text });
    for content in [json!([binary]), json!([text(""), binary]), json!([text(""), text(" ")])] {
        assert!(strict(&with_content(content)).is_ok());
    }
    for content in [json!(""), json!([]), json!([text(""), text("")])] {
        let expected =
            ("messages[0].content".to_owned(), "content must have text or an attachment".to_owned());
        assert_eq!(violations(strict(&with_content(content))), [expected]);
    }
    let mut input = with_content(json!(""));
    input["messages"].as_array_mut().unwrap().push(json!({ "id": "m2", "role": "user", "content": "hi" }));
    assert_eq!(lenient(&input).unwrap().turn.unwrap().message_id, "m2");
}

#[test]
fn nesting() {
    for (levels, accepted) in [(126, true), (127, false), (100_000, false)] {
        let state = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let mut input = whole();
        input["state"] = json!("STATE");
        let json = input.to_string().replace("\"STATE\"", &state);
        let (rules, rule) = (InputRules::Strict, ClientTimeRule::Strict);
        let parsed = RunInput::parse(json.as_bytes(), rules, rule, &mut |_| true);
        assert_eq!(parsed.is_ok(), accepted, "{levels}");
        if !accepted {
            let path = violations(parsed).remove(0).0;
            assert_eq!(path, "");
        }
    }
}
