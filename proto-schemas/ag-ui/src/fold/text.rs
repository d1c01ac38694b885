//! The messages of the back end as text messages.
//!
//! Each item is one message: after its end nothing more of it is shown in the same run. The end is held back until something else comes,
//! so that the last message of a command can say with its end how the command has ended. Calls of tools and thoughts end a message that is
//! whole; one that is still being written stays open around them, as back ends say one message around their tools.

use super::event::AgUiEvent;
use super::frame::FrameWriter;
use super::happened::Said;
use super::ids::ShownIds;
use super::steps::Steps;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    items: HashMap<String, TextItem>,
    open: Option<OpenText>,
    /// The message at the end of the client's list, to which calls of tools belong. A client of 0.0.47 whose list has another end makes
    /// a second message of this id.
    last: Option<String>,
    /// How many questions there were before this run.
    run: u32,
}

/// An item of the back end, as far as it is known.
#[derive(Clone, Debug, Default)]
struct TextItem {
    said: String,
    /// So many bytes of it are shown.
    shown: usize,
    is_whole: bool,
    /// The run in which its message has ended.
    ended: Option<u32>,
}

#[derive(Clone, Debug)]
struct OpenText {
    item_id: String,
    message_id: String,
}

impl TextItem {
    fn hear(&mut self, text: &str, is_partial: bool) {
        if is_partial {
            if !self.is_whole {
                self.said.push_str(text);
            }
            return;
        }
        self.is_whole = true;
        // A text that does not begin with what is shown was redacted or cut meanwhile: nothing can be added to what is shown.
        match text.starts_with(&self.said[..self.shown]) {
            true => text.clone_into(&mut self.said),
            false => self.said.truncate(self.shown),
        }
    }
}

impl Texts {
    pub fn say(
        &mut self,
        item_id: &str,
        said: &Said,
        steps: &mut Steps,
        ids: &mut ShownIds,
        out: &mut FrameWriter,
    ) {
        let run = self.run;
        let item = self.items.entry(item_id.to_owned()).or_default();
        item.hear(&said.text, said.partial.unwrap_or_default());
        if item.shown == item.said.len() || item.ended == Some(run) {
            return;
        }
        if self.open.as_ref().is_none_or(|open| open.item_id != item_id) {
            self.close(None, out);
            steps.show(out);
            self.open(item_id, ids, out);
        }
        let (Some(open), Some(item)) = (&self.open, self.items.get_mut(item_id)) else { return };
        out.say(&AgUiEvent::TextMessageContent {
            message_id: &open.message_id,
            delta: &item.said[item.shown..],
        });
        item.shown = item.said.len();
    }

    /// Something else is about to be shown.
    pub fn pause(&mut self, out: &mut FrameWriter) {
        let item = self.open.as_ref().and_then(|open| self.items.get(&open.item_id));
        if item.is_some_and(|item| item.is_whole) {
            self.close(None, out);
        }
    }

    /// Ends the message that is open, if one is.
    pub fn close(&mut self, metadata: Option<&Value>, out: &mut FrameWriter) {
        let Some(OpenText { item_id, message_id }) = self.open.take() else { return };
        out.say(&AgUiEvent::TextMessageEnd { message_id: &message_id, metadata });
        if let Some(item) = self.items.get_mut(&item_id) {
            item.ended = Some(self.run);
        }
    }

    /// The message that a call of a tool belongs to.
    pub fn parent(&self) -> Option<String> {
        self.last.clone()
    }

    /// Another message stands behind the last text.
    pub fn is_passed(&mut self) {
        self.last = None;
    }

    /// Another run shows what follows. Its client has the messages of the run before it, so the rest of one is a message of its own.
    pub fn begin_run(&mut self) {
        self.last = None;
        self.run = self.run.saturating_add(1);
    }

    fn open(&mut self, item_id: &str, ids: &mut ShownIds, out: &mut FrameWriter) {
        let message_id = ids.of_message(item_id);
        out.say(&AgUiEvent::TextMessageStart { message_id: &message_id, role: "assistant" });
        self.last = Some(message_id.clone());
        self.open = Some(OpenText { item_id: item_id.to_owned(), message_id });
    }
}
