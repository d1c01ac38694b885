//! A sample of the seed and what the server said, member by member.

use serde_json::Value;

/// Members whose value is the server's own. Their form is that of the sample.
const VARY: [&str; 30] = [
    "agent_md",
    "agent_md_sha256",
    "authority_signature",
    "certificate",
    "change_cursor_head",
    "connected_at",
    "count",
    "created_at",
    "crl_url",
    "current_snapshot_version",
    "ephemeral_dropped_count",
    "fingerprint_sha256",
    "from_cursor",
    "id",
    "issued_at",
    "latest_seq",
    "message_id",
    "next_cursor",
    "next_update",
    "ocsp_url",
    "organization",
    "parent_task_id",
    "seq",
    "sequence",
    "snapshot_version",
    "task_id",
    "timestamp",
    "updated_at",
    "value",
    "version",
];

/// What an answer has and may be `null`, as the tables of the seed say.
const MAY_BE_NULL: [&str; 2] = ["ephemeral_earliest_available_seq", "next_cursor"];

/// Where an answer is not the sample: each difference with its path.
pub fn differences(sample: &Value, said: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", sample, said, &mut found);
    found
}

fn compare(path: &str, sample: &Value, said: &Value, found: &mut Vec<String>) {
    let name = path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
    match (sample, said) {
        (Value::Object(members), Value::Object(said)) => {
            for (member, sample) in members {
                let path = format!("{path}.{member}");
                match said.get(member) {
                    Some(said) => compare(&path, sample, said, found),
                    None => found.push(format!("{path} is missing")),
                }
            }
        }
        (Value::Array(samples), Value::Array(said)) => {
            let path = format!("{path}[]");
            for (at, sample) in samples.iter().enumerate() {
                match said.get(at) {
                    Some(said) => compare(&path, sample, said, found),
                    None => found.push(format!("{path} lacks the element {at}")),
                }
            }
        }
        (_, Value::Null) if MAY_BE_NULL.contains(&name) => {}
        (Value::String(sample), Value::String(said)) if VARY.contains(&name) => {
            if form(sample) != form(said) {
                found.push(format!("{path} is {said:?}, which has not the form of {sample:?}"));
            }
        }
        (Value::Number(_), Value::Number(_)) if VARY.contains(&name) || MAY_BE_NULL.contains(&name) => {}
        (sample, said) if sample == said => {}
        (sample, said) => found.push(format!("{path} is {said}, and {sample} in the sample")),
    }
}

/// The form of a text: a time has digits where another has them, any other text is a text.
fn form(text: &str) -> String {
    let digits = text.chars().map(|next| if next.is_ascii_digit() { '0' } else { next }).collect::<String>();
    let is_time = digits.starts_with("0000-00-00T00:00:00") && digits.ends_with('Z');
    if is_time { digits } else { "text".to_owned() }
}

#[test]
fn each_difference_is_found() {
    let sample = serde_json::json!({
        "a": "x", "seq": 1, "updated_at": "2026-03-21T13:00:00Z", "items": [{ "b": true }], "next_cursor": "c",
    });
    assert_eq!(differences(&sample, &sample), [""; 0]);
    for (member, other, difference) in [
        ("a", serde_json::json!("y"), ".a is \"y\", and \"x\" in the sample"),
        ("a", serde_json::json!(null), ".a is null, and \"x\" in the sample"),
        ("seq", serde_json::json!("1"), ".seq is \"1\", and 1 in the sample"),
        ("items", serde_json::json!([]), ".items[] lacks the element 0"),
        ("items", serde_json::json!([{}]), ".items[].b is missing"),
        (
            "updated_at",
            serde_json::json!("2026-03-21T13:00:00.5Z"),
            ".updated_at is \"2026-03-21T13:00:00.5Z\", which has not the form of \"2026-03-21T13:00:00Z\"",
        ),
    ] {
        let mut said = sample.clone();
        said[member] = other;
        assert_eq!(differences(&sample, &said), [difference]);
    }
    let mut said = sample.clone();
    (said["seq"], said["next_cursor"], said["more"]) = (2.into(), Value::Null, true.into());
    assert_eq!(differences(&sample, &said), [""; 0]);
}
