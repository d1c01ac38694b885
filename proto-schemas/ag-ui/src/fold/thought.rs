//! The thoughts of the back end. Each comes whole, so it is shown and ended at once.

use super::event::AgUiEvent;
use super::frame::FrameWriter;
use super::ids::ShownIds;
use std::collections::HashSet;

#[derive(Clone, Debug, Default)]
pub(super) struct ReasonedItems {
    /// The items and texts that were shown.
    shown: HashSet<(String, String)>,
}

impl ReasonedItems {
    /// Whether a thought is to be shown. A runner that took over may say one again.
    pub fn is_new(&mut self, item_id: &str, text: &str) -> bool {
        !text.is_empty() && self.shown.insert((item_id.to_owned(), text.to_owned()))
    }

    pub fn show(item_id: &str, text: &str, ids: &mut ShownIds, out: &mut FrameWriter) {
        let message_id = &ids.of_message(item_id);
        out.say(&AgUiEvent::ReasoningStart { message_id });
        out.say(&AgUiEvent::ReasoningMessageStart { message_id, role: "reasoning" });
        out.say(&AgUiEvent::ReasoningMessageContent { message_id, delta: text });
        out.say(&AgUiEvent::ReasoningMessageEnd { message_id });
        out.say(&AgUiEvent::ReasoningEnd { message_id });
    }
}
