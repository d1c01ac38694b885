//! What the other gateway answers: one outcome for each relay, in its place, or a refusal of the whole frame.

use super::job::Outcome;
use super::refused;
use super::trouble::{read_error, refused_there};
use crate::frame::strict;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{RpcError, codes};
use std::borrow::Cow;

/// A frame that came. Without an id it is nothing that we asked for.
pub struct Heard<'a> {
    pub id: Option<u64>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

pub enum Answers {
    Each(Vec<Outcome>),
    /// The boundary over there did not let the frame in.
    Refused(RpcError),
    /// Not an answer to this question.
    Odd(&'static str),
}

#[derive(Deserialize)]
struct Frame<'a> {
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
struct Item<'a> {
    #[serde(borrow)]
    relay_id: Cow<'a, str>,
    ok: bool,
    /// The boundary over there did not let it in; nothing was done.
    #[serde(default)]
    refused: bool,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    batch_id: Cow<'a, str>,
    #[serde(borrow)]
    results: Vec<Item<'a>>,
}

/// Reads a frame; `Err` if the link cannot go on.
pub fn read(text: &str) -> Result<Heard<'_>, &'static str> {
    let frame: Frame<'_> =
        serde_json::from_str(text).map_err(|_| "its gateway does not speak our language")?;
    match (frame.id, frame.method) {
        (Some(_), Some(_)) => Err("its gateway asks over a link that is for answers"),
        // Something it tells everybody.
        (None, Some(_)) => Ok(Heard { id: None, result: None, error: None }),
        (None, None) => Err("its gateway could not read a frame of ours"),
        (Some(id), None) => {
            let id = id.get().parse().map_err(|_| "its gateway answered what was not asked")?;
            Ok(Heard { id: Some(id), result: frame.result, error: frame.error })
        }
    }
}

impl<'a> Heard<'a> {
    pub fn single<'b>(&self, issuer: &str, mut ids: impl Iterator<Item = &'b str>) -> Answers {
        let text = match self.body() {
            Ok(text) => text,
            Err(answers) => return answers,
        };
        let Ok(item) = serde_json::from_str::<Item<'_>>(text.get()) else {
            return Answers::Odd("it is no outcome of a relay");
        };
        if ids.next() != Some(&*item.relay_id) {
            return Answers::Odd("it is about another relay");
        }
        match outcome(&item, issuer) {
            Some(outcome) => Answers::Each(vec![outcome]),
            None => Answers::Odd("it failed without an error"),
        }
    }

    pub fn batch<'b>(&self, issuer: &str, id: u64, ids: impl ExactSizeIterator<Item = &'b str>) -> Answers {
        let text = match self.body() {
            Ok(text) => text,
            Err(answers) => return answers,
        };
        let Ok(batch) = serde_json::from_str::<Batch<'_>>(text.get()) else {
            return Answers::Odd("it is no outcome of a batch");
        };
        if batch.batch_id != itoa::Buffer::new().format(id) {
            return Answers::Odd("it is about another batch");
        }
        if batch.results.len() != ids.len() {
            return Answers::Odd("there is not one result for each relay");
        }
        if batch.results.iter().zip(ids).any(|(item, id)| item.relay_id != id) {
            return Answers::Odd("it is about another relay");
        }
        match batch.results.iter().map(|item| outcome(item, issuer)).collect() {
            Some(outcomes) => Answers::Each(outcomes),
            None => Answers::Odd("a relay failed without an error"),
        }
    }

    fn body(&self) -> Result<&'a RawValue, Answers> {
        match (self.result, self.error) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(match read_error(error) {
                Some(error) => Answers::Refused(error),
                None => Answers::Odd("its error is none"),
            }),
            _ => Err(Answers::Odd("it is neither a result nor an error")),
        }
    }
}

/// How one relay ended: what the method over there said, unchanged but for where it was said.
fn outcome(item: &Item<'_>, issuer: &str) -> Option<Outcome> {
    let said = if item.ok { item.result.unwrap_or(RawValue::NULL) } else { item.error? };
    // It goes on to clients, and some of them drop their connection over what others take.
    if let Err(flaw) = strict::check(said.get()) {
        let sentence = format!("what {issuer} answered may not be passed on: {flaw}");
        return Some(Err(refused("bad_answer", sentence)));
    }
    if item.ok {
        return Some(Ok(said.to_owned()));
    }
    let error = read_error(said)?;
    // The same whether it was refused alone or in company.
    if item.refused || error.code() == codes::FEDERATION_REFUSED.code {
        return Some(Err(refused_there(issuer, &error)));
    }
    Some(Err(error.with("federated", true).with("target_issuer", issuer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn single(text: &str) -> Answers {
        read(text).unwrap().single("other.example", ["r1"].into_iter())
    }

    fn batch(text: &str) -> Answers {
        read(text).unwrap().batch("other.example", 2, ["r1", "r2"].into_iter())
    }

    #[test]
    fn an_outcome_comes_back_as_the_method_said_it() {
        let Answers::Each(outcomes) =
            single(r#"{"id":2,"result":{"relay_id":"r1","ok":true,"result":{"seq":9007199254740991}}}"#)
        else {
            panic!("not understood")
        };
        assert_eq!(outcomes[0].as_ref().unwrap().get(), r#"{"seq":9007199254740991}"#);
        let text = r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r1","ok":true},
            {"relay_id":"r2","ok":false,"error":{"code":-32004,"message":"no","data":{"why":"x"}}}]}}"#;
        let Answers::Each(outcomes) = batch(text) else { panic!("not understood") };
        assert_eq!(outcomes[0].as_ref().unwrap().get(), "null");
        let error = outcomes[1].as_ref().unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (-32004, "no"));
        assert_eq!(error.data("why"), Some(&Value::from("x")));
        assert_eq!(error.data("federated"), Some(&Value::from(true)));
        assert_eq!(error.data("target_issuer"), Some(&Value::from("other.example")));
    }

    #[test]
    fn what_no_client_may_be_sent_ends_here() {
        for said in [r#"{"a":1,"a":2}"#, r#"{"seq":9007199254740993}"#, r#"{"x":"\ud800"}"#, &"[".repeat(65)]
        {
            let said =
                if said.starts_with("[[") { format!("{said}{}", "]".repeat(65)) } else { said.to_owned() };
            let text = format!(r#"{{"id":2,"result":{{"relay_id":"r1","ok":true,"result":{said}}}}}"#);
            let Answers::Each(outcomes) = single(&text) else { panic!("{said} harms only its own call") };
            assert_eq!(outcomes[0].as_ref().unwrap_err().code(), -32012, "{said}");
        }
    }

    #[test]
    fn a_refusal_is_of_the_whole_frame() {
        let text = r#"{"id":2,"error":{"code":-32012,"message":"no transit","data":{"reason":"target"}}}"#;
        assert!(matches!(single(text), Answers::Refused(error) if error.code() == -32012));
        assert!(matches!(batch(text), Answers::Refused(error) if error.code() == -32012));
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_odd() {
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
            assert!(matches!(single(text), Answers::Odd(_)), "{text}");
        }
        for text in [
            r#"{"id":2,"result":{"batch_id":"3","results":[{"relay_id":"r1","ok":true},{"relay_id":"r2","ok":true}]}}"#,
            r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r1","ok":true}]}}"#,
            r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r2","ok":true},{"relay_id":"r1","ok":true}]}}"#,
            r#"{"id":2,"result":{"batch_id":"2","results":[{"relay_id":"r1","ok":true},{"relay_id":"r2","ok":false}]}}"#,
            r#"{"id":2,"result":{"results":[]}}"#,
        ] {
            assert!(matches!(batch(text), Answers::Odd(_)), "{text}");
        }
    }

    #[test]
    fn a_frame_that_is_no_answer_ends_the_link_unless_it_only_tells_something() {
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
