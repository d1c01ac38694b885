//! What the other gateway answers: one outcome for each relay of the frame, in the same order, or a refusal of the whole
//! frame.

use super::pending_relay::RelayOutcome;
use crate::federation::errors::{read_error, refused, refused_by_peer};
use kernel::strict_json as strict;
use kernel::{RpcError, codes};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A received frame. Without an id it is a notification, and not an answer to us.
pub struct AnswerFrame<'a> {
    pub id: Option<u64>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

pub enum RelayAnswers {
    Each(Vec<RelayOutcome>),
    /// The other gateway refused the whole frame.
    Refused(RpcError),
    /// It does not answer this frame.
    Malformed(&'static str),
}

#[derive(Deserialize)]
struct RawAnswerFrame<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RelayAnswer<'a> {
    #[serde(borrow)]
    relay_id: Cow<'a, str>,
    ok: bool,
    /// The other gateway refused it before it reached a service, so it had no effect.
    #[serde(default)]
    refused: bool,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RelayBatchAnswer<'a> {
    #[serde(borrow)]
    batch_id: Cow<'a, str>,
    #[serde(borrow)]
    results: Vec<RelayAnswer<'a>>,
}

/// Reads a frame; `Err` if the link has to end.
pub fn read(text: &str) -> Result<AnswerFrame<'_>, &'static str> {
    let frame: RawAnswerFrame<'_> =
        serde_json::from_str(text).map_err(|_| "its gateway sent something that is not a JSON-RPC frame")?;
    match (frame.id, frame.method) {
        (Some(_), Some(_)) => Err("its gateway sent a request over a link that carries only ours"),
        // A notification.
        (None, Some(_)) => Ok(AnswerFrame { id: None, result: None, error: None }),
        (None, None) => Err("its gateway could not parse a frame of ours"),
        (Some(id), None) => {
            let id = id.get().parse().map_err(|_| "its gateway answered an unknown id")?;
            Ok(AnswerFrame { id: Some(id), result: frame.result, error: frame.error })
        }
    }
}

impl<'a> AnswerFrame<'a> {
    pub fn single<'b>(&self, issuer: &str, mut ids: impl Iterator<Item = &'b str>) -> RelayAnswers {
        let text = match self.body() {
            Ok(text) => text,
            Err(answers) => return answers,
        };
        let Ok(item) = serde_json::from_str::<RelayAnswer<'_>>(text.get()) else {
            return RelayAnswers::Malformed("it is not the outcome of a relay");
        };
        if ids.next() != Some(&*item.relay_id) {
            return RelayAnswers::Malformed("it is about another relay");
        }
        match outcome(&item, issuer) {
            Some(outcome) => RelayAnswers::Each(vec![outcome]),
            None => RelayAnswers::Malformed("it failed without an error"),
        }
    }

    pub fn batch<'b>(
        &self,
        issuer: &str,
        id: u64,
        ids: impl ExactSizeIterator<Item = &'b str>,
    ) -> RelayAnswers {
        let text = match self.body() {
            Ok(text) => text,
            Err(answers) => return answers,
        };
        let Ok(batch) = serde_json::from_str::<RelayBatchAnswer<'_>>(text.get()) else {
            return RelayAnswers::Malformed("it is not the outcome of a batch");
        };
        if batch.batch_id != itoa::Buffer::new().format(id) {
            return RelayAnswers::Malformed("it is about another batch");
        }
        if batch.results.len() != ids.len() {
            return RelayAnswers::Malformed("it does not have one result per relay");
        }
        if batch.results.iter().zip(ids).any(|(item, id)| item.relay_id != id) {
            return RelayAnswers::Malformed("it is about another relay");
        }
        match batch.results.iter().map(|item| outcome(item, issuer)).collect() {
            Some(outcomes) => RelayAnswers::Each(outcomes),
            None => RelayAnswers::Malformed("a relay failed without an error"),
        }
    }

    fn body(&self) -> Result<&'a RawValue, RelayAnswers> {
        match (self.result, self.error) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(match read_error(error) {
                Some(error) => RelayAnswers::Refused(error),
                None => RelayAnswers::Malformed("its error is malformed"),
            }),
            _ => Err(RelayAnswers::Malformed("it has neither or both of result and error")),
        }
    }
}

/// The outcome of one relay: what the method in the other domain answered, unchanged; an error also says where it is from.
fn outcome(item: &RelayAnswer<'_>, issuer: &str) -> Option<RelayOutcome> {
    let answer = if item.ok { item.result.unwrap_or(RawValue::NULL) } else { item.error? };
    // It goes on to clients, and some of them close their connection over JSON that others accept.
    if let Err(flaw) = strict::check(answer.get()) {
        let sentence = format!("the answer of {issuer} may not be passed on: {flaw}");
        return Some(Err(refused("bad_answer", sentence)));
    }
    if item.ok {
        return Some(Ok(answer.to_owned()));
    }
    let error = read_error(answer)?;
    // The same error whether it was refused alone or in a batch.
    if item.refused || error.code() == codes::FEDERATION_REFUSED.code {
        return Some(Err(refused_by_peer(issuer, &error)));
    }
    Some(Err(error.with("federated", true).with("target_issuer", issuer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn single(text: &str) -> RelayAnswers {
        read(text).unwrap().single("other.example", ["r1"].into_iter())
    }

    fn batch(text: &str) -> RelayAnswers {
        read(text).unwrap().batch("other.example", 2, ["r1", "r2"].into_iter())
    }

    #[test]
    fn an_outcome_is_what_the_method_answered() {
        let RelayAnswers::Each(outcomes) =
            single(r#"{"id":2,"result":{"relay_id":"r1","ok":true,"result":{"seq":9007199254740991}}}"#)
        else {
            panic!("no outcomes")
        };
        assert_eq!(outcomes[0].as_ref().unwrap().get(), r#"{"seq":9007199254740991}"#);
        let text = r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r1","ok":true},
            {"relay_id":"r2","ok":false,"error":{"code":-32004,"message":"no","data":{"why":"x"}}}]}}"#;
        let RelayAnswers::Each(outcomes) = batch(text) else { panic!("no outcomes") };
        assert_eq!(outcomes[0].as_ref().unwrap().get(), "null");
        let error = outcomes[1].as_ref().unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (-32004, "no"));
        assert_eq!(error.data("why"), Some(&Value::from("x")));
        assert_eq!(error.data("federated"), Some(&Value::from(true)));
        assert_eq!(error.data("target_issuer"), Some(&Value::from("other.example")));
    }

    #[test]
    fn an_answer_that_no_client_may_be_sent_fails_its_own_call() {
        for answer in
            [r#"{"a":1,"a":2}"#, r#"{"seq":9007199254740993}"#, r#"{"x":"\ud800"}"#, &"[".repeat(65)]
        {
            let answer = if answer.starts_with("[[") {
                format!("{answer}{}", "]".repeat(65))
            } else {
                answer.to_owned()
            };
            let text = format!(r#"{{"id":2,"result":{{"relay_id":"r1","ok":true,"result":{answer}}}}}"#);
            let RelayAnswers::Each(outcomes) = single(&text) else {
                panic!("{answer} fails only its own call")
            };
            assert_eq!(outcomes[0].as_ref().unwrap_err().code(), -32012, "{answer}");
        }
    }

    #[test]
    fn an_error_refuses_the_whole_frame() {
        let text = r#"{"id":2,"error":{"code":-32012,"message":"no transit","data":{"reason":"target"}}}"#;
        assert!(matches!(single(text), RelayAnswers::Refused(error) if error.code() == -32012));
        assert!(matches!(batch(text), RelayAnswers::Refused(error) if error.code() == -32012));
    }

    #[test]
    fn an_answer_that_does_not_fit_the_frame_is_malformed() {
        for text in [
            r#"{"id":2,"result":{"relay_id":"r9","ok":true}}"#,
            r#"{"id":2,"result":{"relay_id":"r1"}}"#,
            r#"{"id":2,"result":{"relay_id":"r1","ok":false}}"#,
            r#"{"id":2,"result":{"relay_id":"r1","ok":false,"error":7}}"#,
            r#"{"id":2,"result":{"relay_id":"r1","ok":true},"error":{"code":1,"message":""}}"#,
            r#"{"id":2,"result":[]}"#,
            r#"{"id":2,"error":"text"}"#,
            r#"{"id":2}"#,
        ] {
            assert!(matches!(single(text), RelayAnswers::Malformed(_)), "{text}");
        }
        for text in [
            r#"{"id":2,"result":{"batch_id":"3","results":[{"relay_id":"r1","ok":true},{"relay_id":"r2","ok":true}]}}"#,
            r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r1","ok":true}]}}"#,
            r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r2","ok":true},{"relay_id":"r1","ok":true}]}}"#,
            r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r1","ok":true},{"relay_id":"r2","ok":false}]}}"#,
            r#"{"id":2,"result":{"results":[]}}"#,
        ] {
            assert!(matches!(batch(text), RelayAnswers::Malformed(_)), "{text}");
        }
    }

    #[test]
    fn a_frame_that_is_neither_an_answer_nor_a_notification_ends_the_link() {
        assert!(read(r#"{"jsonrpc":"2.0","method":"event/x","params":{}}"#).unwrap().id.is_none());
        for text in [
            "",
            "[]",
            "{}",
            r#"{"id":null,"error":{}}"#,
            r#"{"id":"2","result":1}"#,
            r#"{"id":2,"method":"x"}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
