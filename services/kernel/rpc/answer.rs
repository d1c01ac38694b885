//! What a method answers.

use crate::RpcError;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::pin::Pin;

/// A call that has begun: it ends with its answer or with an error.
pub type PendingAnswer<T = Answer> = Pin<Box<dyn Future<Output = Result<T, RpcError>> + Send>>;

/// What a method answers: its result (over the mesh as it was written), and the event it causes on the caller's own
/// connection, if any.
#[derive(Clone, Debug)]
pub struct Answer<R = Box<RawValue>> {
    pub result: R,
    /// Boxed: hardly any answer causes one, and every answer is moved about.
    pub event: Option<Box<CallerEvent>>,
}

/// An event for the connection that called, which must not overtake the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallerEvent {
    pub method: Cow<'static, str>,
    pub params: Box<RawValue>,
}

/// A borrowed answer.
#[derive(Clone, Copy)]
pub struct AnswerRef<'a> {
    pub result: &'a RawValue,
    pub event: Option<&'a CallerEvent>,
}

impl Answer {
    pub fn as_ref(&self) -> AnswerRef<'_> {
        AnswerRef { result: &self.result, event: self.event.as_deref() }
    }
}

impl AnswerRef<'_> {
    pub fn to_owned(self) -> Answer {
        Answer { result: self.result.to_owned(), event: self.event.cloned().map(Box::new) }
    }
}

impl From<Box<RawValue>> for Answer {
    fn from(result: Box<RawValue>) -> Answer {
        Answer { result, event: None }
    }
}

/// What the handler of a method with this result may return: the result alone, an [`Answer`] where an event follows it, or a
/// [`ResultText`].
pub trait IntoAnswer<R> {
    fn into_answer(self) -> serde_json::Result<Answer>;
}

impl<R: Serialize> IntoAnswer<R> for R {
    fn into_answer(self) -> serde_json::Result<Answer> {
        Ok(Answer { result: to_raw_value(&self)?, event: None })
    }
}

impl<R: Serialize> IntoAnswer<R> for Answer<R> {
    fn into_answer(self) -> serde_json::Result<Answer> {
        Ok(Answer { result: to_raw_value(&self.result)?, event: self.event })
    }
}

/// The result of a method as it is kept: a text that is signed as a whole, so it is passed on byte by byte.
#[derive(Clone, Debug)]
pub struct ResultText<R> {
    text: Box<RawValue>,
    result: PhantomData<fn() -> R>,
}

impl<R> ResultText<R> {
    pub fn new(text: Box<RawValue>) -> ResultText<R> {
        ResultText { text, result: PhantomData }
    }

    pub fn get(&self) -> &str {
        self.text.get()
    }
}

impl<R> IntoAnswer<R> for ResultText<R> {
    fn into_answer(self) -> serde_json::Result<Answer> {
        Ok(self.text.into())
    }
}
