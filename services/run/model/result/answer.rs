//! Which message of the back end is its answer.

use crate::redact::{LONGEST_TEXT, cut, redact_text};
use proto_schemas::requests::run::{FinalResponse, FinalSource};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::VecDeque;

/// How many items with parts only are remembered; the one that was silent longest is forgotten. A back end writes few at the same time.
const UNFINISHED: usize = 8;
/// How many whole items are known, so that a part which comes later is told from a new item.
const ENDED: usize = 64;
/// Joined text is redacted before it is cut, so more of it is held than is shown.
const HELD_TEXT: usize = LONGEST_TEXT + (8 << 10);

/// An `assistant_message` as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssistantMessage<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(rename = "final")]
    is_final: Option<bool>,
    reply_authority: Option<bool>,
    partial: Option<bool>,
    text_truncated: Option<bool>,
    output_truncated: Option<bool>,
    #[serde(borrow)]
    item_id: Option<Cow<'a, str>>,
}

/// A message, or what is known of it so far.
#[derive(Clone, Debug, Default)]
struct AssistantItem {
    item_id: Option<String>,
    text: String,
    seq: i64,
    is_final: bool,
    reply_authority: bool,
    text_truncated: bool,
    output_truncated: bool,
}

/// Chooses among the messages of a command, in their order, and holds a bounded number of them.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerChoice {
    /// The last message that the back end called its answer.
    authoritative: Option<AssistantItem>,
    /// The last whole message with a text.
    whole: Option<AssistantItem>,
    /// Items of which only parts have come.
    parts: VecDeque<AssistantItem>,
    /// Items of which the whole message has come: a part that comes later changes nothing.
    ended: VecDeque<String>,
}

impl AnswerChoice {
    pub fn push(&mut self, seq: i64, payload: &str) {
        let Ok(message) = serde_json::from_str::<AssistantMessage<'_>>(payload) else { return };
        let authoritative = message.is_final == Some(true) || message.reply_authority == Some(true);
        let item_id = message.item_id.as_deref();
        if message.partial == Some(true) && self.ended.iter().any(|ended| Some(&**ended) == item_id) {
            return;
        }
        let mut item = match self.parts.iter().position(|item| item.item_id.as_deref() == item_id) {
            Some(at) => self.parts.remove(at).unwrap_or_default(),
            None => AssistantItem { item_id: item_id.map(str::to_owned), ..AssistantItem::default() },
        };
        match message.partial == Some(true) {
            true => item.join(&message.text),
            false => item.replace(&message, self.whole.as_ref()),
        }
        item.seq = seq;
        item.is_final = message.is_final == Some(true);
        item.reply_authority = message.reply_authority == Some(true);
        item.text_truncated |= message.text_truncated == Some(true);
        item.output_truncated |= message.output_truncated == Some(true);
        if message.partial == Some(true) && !authoritative {
            keep_newest(&mut self.parts, item, UNFINISHED);
            return;
        }
        if let Some(item_id) = &item.item_id {
            keep_newest(&mut self.ended, item_id.clone(), ENDED);
        }
        if authoritative {
            self.authoritative = Some(item);
        } else if !item.text.is_empty() {
            self.whole = Some(item);
        }
    }

    pub fn bytes(&self) -> usize {
        let items = self.authoritative.iter().chain(&self.whole).chain(&self.parts);
        let items: usize = items.map(AssistantItem::bytes).sum();
        items + self.ended.iter().map(String::len).sum::<usize>()
    }

    /// The last message that the back end called its answer, or the last one that has a text.
    pub fn chosen(self) -> Option<FinalResponse> {
        if let Some(item) = self.authoritative {
            return Some(item.response(FinalSource::Authoritative));
        }
        let texts = self.parts.into_iter().chain(self.whole).filter(|item| !item.text.is_empty());
        texts.max_by_key(|item| item.seq).map(|item| item.response(FinalSource::FallbackLastAssistant))
    }
}

impl AssistantItem {
    fn bytes(&self) -> usize {
        size_of::<AssistantItem>() + self.text.len() + self.item_id.as_ref().map_or(0, String::len)
    }

    fn join(&mut self, part: &str) {
        let kept = cut(part, HELD_TEXT - self.text.len());
        self.text_truncated |= kept.len() < part.len();
        self.text.push_str(kept);
    }

    /// A whole message takes the place of its parts. One that only says which item is the answer keeps the text that the item had.
    fn replace(&mut self, message: &AssistantMessage<'_>, before: Option<&AssistantItem>) {
        if !message.text.is_empty() {
            self.text.clear();
            self.text_truncated = false;
            self.join(&message.text);
        } else if let Some(before) =
            before.filter(|before| before.item_id == self.item_id && self.item_id.is_some())
        {
            self.text.clone_from(&before.text);
            self.text_truncated = before.text_truncated;
        }
    }

    /// A secret that came in two parts is only seen in the joined text.
    fn response(self, source: FinalSource) -> FinalResponse {
        let redacted = redact_text(&self.text);
        let text = cut(&redacted, LONGEST_TEXT);
        FinalResponse {
            text_truncated: self.text_truncated || text.len() < redacted.len(),
            text: text.to_owned(),
            seq: self.seq,
            source,
            is_final: self.is_final,
            reply_authority: self.reply_authority,
            output_truncated: self.output_truncated,
        }
    }
}

fn keep_newest<T>(kept: &mut VecDeque<T>, newest: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(newest);
}
