//! Each check alone, and each two of them: the earlier one answers.

use super::*;

/// What breaks one check, and the sentence of that check.
type Breakage = (u32, &'static str, fn(&mut Value));

/// In the order of the checks. They change different parts of an input, so that two of them break two checks.
const BREAKAGES: &[Breakage] = &[
    (1, "RunAgentInput payload exceeds size limit", |input| input["x"] = "x".repeat(MOST_INPUT_BYTES).into()),
    (2, "invalid RunAgentInput", |input| input["context"] = json!(7)),
    (3, "threadId must be a valid UUID", |input| input["threadId"] = json!("550e8400")),
    (4, "runId exceeds length limit", |input| input["runId"] = "é".repeat(129).into()),
    (5, "RunAgentInput.messages exceeds limit", |input| {
        let history = json!({ "id": "h", "role": "assistant" });
        messages(input).extend(vec![history; 200]);
    }),
    (6, "RunAgentInput.messages must contain exactly one user message", |input| {
        let mut second = user(input).clone();
        second["id"] = json!("second");
        messages(input).push(second);
    }),
    (7, "RunAgentInput.messages[0].role must be user", |input| {
        messages(input).insert(0, json!({ "id": "s", "role": "system", "content": "s" }));
    }),
    (8, "RunAgentInput user message text exceeds limit", |input| {
        blocks(input).push(json!({ "type": "text", "text": "x".repeat(10_000) }));
    }),
    (9, "binary content data is not allowed", |input| blocks(input)[1]["data"] = json!("")),
    (10, "binary content requires image mimeType", |input| {
        blocks(input)[1]["mimeType"] = json!("text/plain")
    }),
    (11, "binary content requires url", |input| blocks(input)[1]["url"] = json!(null)),
    (12, "Too many attachments", |input| {
        let more = json!({ "type": "binary", "mimeType": "image/png", "url": "https://signed/3" });
        blocks(input).extend([more.clone(), more]);
    }),
    (13, "binary content url is not a valid signed URL", |input| {
        blocks(input)[3]["source"]["value"] = json!("https://elsewhere/");
    }),
    (14, "invalid RunAgentInput.forwardedProps", |input| input["forwardedProps"]["other"] = json!(1)),
    (15, "invalid client_time.device_timezone", |input| time(input, "device_timezone", json!("+08:00"))),
    (16, "invalid client_time.client_now_iso", |input| {
        time(input, "client_now_iso", json!("2026-03-16T09:12:33"))
    }),
    (17, "invalid client_time.client_epoch_ms", |input| time(input, "client_epoch_ms", json!(1.5))),
];

fn messages(input: &mut Value) -> &mut Vec<Value> {
    input["messages"].as_array_mut().unwrap()
}

fn user(input: &mut Value) -> &mut Value {
    messages(input).iter_mut().find(|message| message["id"] == "m1").unwrap()
}

fn blocks(input: &mut Value) -> &mut Vec<Value> {
    user(input)["content"].as_array_mut().unwrap()
}

fn time(input: &mut Value, member: &str, value: Value) {
    input["forwardedProps"]["client_time"][member] = value;
}

#[test]
fn each_check_has_its_sentence() {
    for (n, (row, sentence, breaks)) in (1..).zip(BREAKAGES) {
        let mut input = whole();
        breaks(&mut input);
        assert_eq!((n, refused(&input)), (*row, (*sentence).to_owned()));
        let errors = strict(&input).unwrap_err().errors;
        assert_eq!(errors.is_empty(), *row != 2, "only a wrong form has violations");
    }
}

#[test]
fn of_two_the_earlier_one_answers() {
    for (n, (_, sentence, first)) in BREAKAGES.iter().enumerate() {
        for (row, other, second) in &BREAKAGES[n + 1..] {
            for breakages in [[first, second], [second, first]] {
                let mut input = whole();
                breakages.iter().for_each(|breaks| breaks(&mut input));
                assert_eq!(refused(&input), *sentence, "with {row}: {other}");
            }
        }
    }
}

#[test]
fn rules_are_checked_for_all_blocks_before_the_next_rule() {
    let mut input = whole();
    blocks(&mut input)[1]["mimeType"] = json!("text/plain");
    blocks(&mut input)[3]["source"]["type"] = json!("data");
    assert_eq!(refused(&input), "binary content data is not allowed");
}

#[test]
fn an_attachment_is_asked_about_only_where_all_before_it_was_right() {
    for (row, sentence, breaks) in BREAKAGES {
        let mut input = whole();
        breaks(&mut input);
        let mut asked = 0;
        let json = input.to_string();
        let refused =
            RunInput::parse(json.as_bytes(), InputRules::Strict, ClientTimeRule::Strict, &mut |_| {
                asked += 1;
                false
            });
        let expected = if *row < 13 { sentence } else { "binary content url is not a valid signed URL" };
        assert_eq!((refused.unwrap_err().detail.as_str(), asked), (expected, u32::from(*row >= 13)), "{row}");
    }
}

#[test]
fn lenient_rules_answer_the_same_but_for_the_turn_and_the_props() {
    for (row, sentence, breaks) in BREAKAGES {
        let mut input = whole();
        breaks(&mut input);
        match row {
            6 | 7 | 14 => assert!(lenient(&input).is_ok(), "{row}"),
            _ => assert_eq!(lenient(&input).unwrap_err().detail, *sentence),
        }
    }
}

#[test]
fn a_wrong_client_time_can_be_ignored() {
    for value in [json!("now"), json!({}), json!({ "device_timezone": "UTC" })] {
        let mut input = whole();
        input["forwardedProps"]["client_time"] = value;
        let parsed = parse_with(&input, InputRules::Strict, ClientTimeRule::Lenient).unwrap();
        assert_eq!((parsed.client_time, parsed.client_time_ignored), (None, true));
        assert_eq!(parsed.normalized["forwardedProps"], input["forwardedProps"]);
    }
    for (row, sentence, breaks) in BREAKAGES {
        let mut input = whole();
        breaks(&mut input);
        let parsed = parse_with(&input, InputRules::Strict, ClientTimeRule::Lenient);
        match parsed {
            Ok(parsed) => assert!(parsed.client_time_ignored && *row > 14, "{row}"),
            Err(refused) => assert!(*row < 15 && refused.detail == *sentence, "{row}"),
        }
    }
    let parsed = parse_with(&whole(), InputRules::Strict, ClientTimeRule::Lenient).unwrap();
    assert!(parsed.client_time.is_some() && !parsed.client_time_ignored);
}
