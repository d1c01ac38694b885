//! The parameters of a call, and what is wrong with them.

use super::access::MethodRefused;
use crate::RpcError;
use proto_schemas::{Method, ParamViolation, bound_violations, violations};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

/// The parameters of a method that the gateway answers itself, read as those of a service.
pub fn read_params<'a, P: Deserialize<'a>>(
    method: &str,
    params: Option<&'a RawValue>,
) -> Result<P, RpcError> {
    let found = proto_schemas::find(method).ok_or_else(|| MethodRefused::NotFound.error(method))?;
    parse(found, params)
}

/// Absent parameters are an empty object. What cannot be read is answered in the words of the schema; where the schema accepts it, a
/// name broke a rule of its own and says which.
pub(super) fn parse<'a, P: Deserialize<'a>>(
    method: &Method,
    params: Option<&'a RawValue>,
) -> Result<P, RpcError> {
    let text = params.map_or("{}", RawValue::get);
    // Where something is wrong is looked for only in calls that fail.
    serde_json::from_str(text).or_else(|_| {
        let of_schema =
            serde_json::from_str(text).map(|params| violations(method, params)).unwrap_or_default();
        match of_schema.first() {
            Some(first) => Err(invalid_params(method, &first.message.clone(), &of_schema)),
            None => parse_with_path(method, text),
        }
    })
}

/// Refuses parameters that exceed the bounds of their schema.
pub(super) fn check_bounds(method: &Method, params: Option<&RawValue>) -> Result<(), RpcError> {
    let Some(params) = params else { return Ok(()) };
    let found = bound_violations(method, params);
    match found.first() {
        Some(first) => Err(invalid_params(method, &first.message.clone(), &found)),
        None => Ok(()),
    }
}

fn parse_with_path<'a, P: Deserialize<'a>>(method: &Method, text: &'a str) -> Result<P, RpcError> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let step = |segment: &Segment| match segment {
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Seq { index } => format!("/{index}"),
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        };
        let (path, named) = (error.path().iter().map(step).collect(), error.path().to_string());
        let named = if named == "." { "params".to_owned() } else { named };
        let message = match own_words(&error.into_inner()) {
            Some(reason) => format!("{named}: {reason}"),
            None => format!("{named} has the wrong form"),
        };
        invalid_params(method, &message.clone(), &[ParamViolation { path, rule: "format", message }])
    })
}

/// What a name says of its own rules. The parser's sentences name types of Rust, which no caller knows.
fn own_words(error: &serde_json::Error) -> Option<String> {
    const OF_THE_PARSER: [&str; 6] =
        ["invalid ", "missing field ", "unknown ", "duplicate ", "data did not ", "expected "];
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    let is_own = error.is_data() && !OF_THE_PARSER.iter().any(|words| reason.starts_with(words));
    is_own.then(|| reason.to_owned())
}

fn invalid_params(method: &Method, sentence: &str, violations: &[ParamViolation]) -> RpcError {
    RpcError::new(method.invalid_params, sentence).with("violations", json!(violations))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;
    use proto_schemas::requests::{message, search};
    use serde_json::Value;

    /// The sentence, and where something is wrong by which rule.
    fn refusal(params: &str) -> (String, Value) {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        let method = proto_schemas::find("message.send").unwrap();
        let error = parse::<message::Send>(method, Some(&params)).expect_err("it is refused");
        let short = |it: &Value| json!([it["path"], it["rule"]]);
        let found = error.data("violations").and_then(Value::as_array).unwrap().iter().map(short);
        (error.to_string(), found.collect())
    }

    #[test]
    fn the_schema_says_what_is_wrong_and_a_name_what_its_rule_is() {
        let missing = json!([["/to", "required"], ["/payload", "required"]]);
        assert_eq!(refusal("{}"), ("to is required".to_owned(), missing));
        let wrong = refusal(r#"{"to":7,"payload":{}}"#);
        assert_eq!(wrong, ("to must be a string".to_owned(), json!([["/to", "type"]])));
        let (sentence, found) = refusal(r#"{"to":"alice","payload":{}}"#);
        assert!(sentence.starts_with("to: an AID must have the form name.issuer"), "{sentence}");
        assert_eq!(found, json!([["/to", "format"]]));
    }

    #[test]
    fn a_method_may_have_a_code_of_its_own_for_them() {
        let code = |method: &str| {
            let params = RawValue::from_string(r#"{"limit":"x"}"#.to_owned()).unwrap();
            let method = proto_schemas::find(method).unwrap();
            let limit = parse::<search::Query>(method, Some(&params)).expect_err("it is refused");
            assert_eq!(limit.to_string(), "limit must be an integer or null");
            limit.code()
        };
        assert_eq!(code("search.query"), codes::search::INVALID_QUERY.code);
        assert_eq!(code("search.snapshot"), codes::INVALID_PARAMS.code);
    }

    #[test]
    fn no_word_of_the_parser_gets_out() {
        for params in ["[]", r#"{"to":"alice.aid.pub","payload":{},"ttl":true}"#, r#"{"to":{}}"#] {
            let (sentence, _) = refusal(params);
            for word in ["expected", "invalid type", "missing field", "line", "column"] {
                assert!(!sentence.contains(word), "{sentence}");
            }
        }
    }
}
