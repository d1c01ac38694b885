//! Inputs that nobody would write.

use super::spellings::in_snake_case;
use super::*;
use proptest::prelude::*;

const NAMES: &[&str] = &[
    "threadId",
    "thread_id",
    "runId",
    "messages",
    "state",
    "tools",
    "forwardedProps",
    "resume",
    "id",
    "role",
    "content",
    "toolCalls",
    "type",
    "text",
    "source",
    "mimeType",
    "client_time",
    "runtime_mode",
    "function",
    "status",
    "other",
];

/// Any JSON, with names and words that an input has.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "user", "tool", "text", "binary", "image", "chat", "", "resolved", "function",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 40, 6, |inner| {
        let members = prop::collection::btree_map(prop::sample::select(NAMES), inner.clone(), 0..6);
        let object = members.prop_map(|members| {
            Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        });
        prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Value::from), object]
    })
}

/// Pointers to what a whole input has.
fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| pointers(item, &format!("{path}/{n}"), found));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| pointers(member, &format!("{path}/{name}"), found));
        }
        _ => (),
    }
}

/// A whole input in which a few values are replaced.
fn damaged() -> impl Strategy<Value = Value> {
    let original = {
        let mut input = whole();
        input["resume"] = resuming()["resume"].clone();
        input
    };
    let mut all = Vec::new();
    pointers(&original, "", &mut all);
    let changes = prop::collection::vec((prop::sample::select(all), any_json()), 0..3);
    changes.prop_map(move |changes| {
        let mut input = original.clone();
        for (pointer, value) in changes {
            if let Some(found) = input.pointer_mut(&pointer) {
                *found = value;
            }
        }
        input
    })
}

fn everywhere(input: &Value) -> Vec<Result<RunInput, InputRefused>> {
    let rules = [InputRules::Strict, InputRules::Lenient];
    let times = [ClientTimeRule::Strict, ClientTimeRule::Lenient];
    let both = rules.into_iter().flat_map(|rules| times.map(|time| (rules, time)));
    both.map(|(rules, time)| parse_with(input, rules, time)).collect()
}

proptest! {
    #[test]
    fn no_input_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200), input in any_json()) {
        _ = RunInput::parse(&bytes, InputRules::Lenient, ClientTimeRule::Lenient, &mut |_| true);
        for refused in everywhere(&input).into_iter().filter_map(Result::err) {
            prop_assert!(refused.errors.len() <= 20);
            prop_assert_eq!(refused.detail == "invalid RunAgentInput", !refused.errors.is_empty());
        }
    }

    #[test]
    fn spellings_do_not_matter(input in damaged()) {
        let snake = in_snake_case(&input);
        for (camel, snake) in everywhere(&input).into_iter().zip(everywhere(&snake)) {
            match (camel, snake) {
                (Ok(camel), Ok(snake)) => prop_assert_eq!(camel, snake),
                (Err(camel), Err(snake)) => {
                    if !camel.detail.starts_with("duplicate field") && !snake.detail.starts_with("duplicate field") {
                        prop_assert_eq!(camel.detail, snake.detail);
                    }
                }
                (camel, snake) => prop_assert!(false, "{camel:?} and {snake:?}"),
            }
        }
    }

    #[test]
    fn what_is_normalized_is_accepted_again_as_it_is(input in damaged()) {
        for (n, result) in everywhere(&input).into_iter().enumerate() {
            let Ok(parsed) = result else { continue };
            prop_assert_eq!(everywhere(&parsed.normalized).swap_remove(n), Ok(parsed));
        }
    }

    #[test]
    fn what_is_strictly_right_is_right_leniently(input in damaged()) {
        let mut results = everywhere(&input);
        if let Ok(strict) = results.remove(0) {
            for lenient in results {
                prop_assert_eq!(lenient.as_ref(), Ok(&strict));
            }
        }
    }
}
