//! The turn that Codex works on.

use super::items;
use super::question::CodexQuestion;
use crate::back_end::{BackEndEvent, TurnEnd, TurnRequest, WrittenStream};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Questions that wait at once. A further one is refused.
const MOST_QUESTIONS: usize = 64;
/// Items that are open at once, of which something is remembered.
const MOST_ITEMS: usize = 1000;

pub(super) struct CodexTurn {
    /// Until Codex is told.
    pub request: Option<TurnRequest>,
    /// When Codex has begun it.
    pub id: Option<String>,
    /// It was interrupted before it had an id.
    pub wants_interrupt: bool,
    /// By the ids under which the manager knows them.
    pub questions: BTreeMap<String, CodexQuestion>,
    pub unreachable_since: Option<Instant>,
    /// Why the provider cannot be reached.
    pub unreachable: Option<String>,
    /// How it ends, because nobody waits for it any longer.
    pub given_up: Option<TurnEnd>,
    items: BTreeMap<String, OpenItem>,
    last_diff: String,
}

/// An item that has begun.
#[derive(Default)]
struct OpenItem {
    has_output: bool,
    /// The files that it changes.
    files: Option<String>,
}

impl CodexTurn {
    pub fn new(request: TurnRequest) -> CodexTurn {
        CodexTurn {
            request: Some(request),
            id: None,
            wants_interrupt: false,
            questions: BTreeMap::new(),
            unreachable_since: None,
            unreachable: None,
            given_up: None,
            items: BTreeMap::new(),
            last_diff: String::new(),
        }
    }

    pub fn may_be_asked(&self) -> bool {
        self.questions.len() < MOST_QUESTIONS
    }

    /// The files that an open item changes.
    pub fn files(&self, item: &Value) -> Option<&str> {
        self.items.get(item.as_str()?)?.files.as_deref()
    }

    /// Codex does not wait for this question any longer.
    pub fn resolved(&mut self, request: &Value) {
        self.questions.retain(|_, question| question.id != *request);
    }

    /// Codex repeats a diff with each step.
    pub fn is_new_diff(&mut self, diff: &str) -> bool {
        let is_new = self.last_diff != diff && !diff.is_empty();
        if is_new {
            diff.clone_into(&mut self.last_diff);
        }
        is_new
    }

    /// What a notice about an item means. The provider is there, then.
    pub fn noticed(&mut self, method: &str, params: &Value) -> Vec<BackEndEvent> {
        if method.starts_with("item/") {
            self.unreachable_since = None;
        }
        let item = &params["item"];
        let delta = || params["delta"].as_str().unwrap_or_default().to_owned();
        match method {
            "item/started" => {
                let open = OpenItem { has_output: false, files: items::files(item) };
                if let Some(id) = item["id"].as_str().filter(|_| self.items.len() < MOST_ITEMS) {
                    self.items.insert(id.to_owned(), open);
                }
                items::started(item).into_iter().collect()
            }
            "item/completed" => {
                let open = item["id"].as_str().and_then(|id| self.items.remove(id));
                items::completed(item, open.is_some_and(|open| open.has_output))
            }
            "item/agentMessage/delta" => {
                let item_id = params["itemId"].as_str().unwrap_or_default().to_owned();
                vec![BackEndEvent::Partial { item_id, text: delta() }]
            }
            "item/commandExecution/outputDelta" => {
                if let Some(open) = params["itemId"].as_str().and_then(|id| self.items.get_mut(id)) {
                    open.has_output = true;
                }
                vec![BackEndEvent::Written { stream: WrittenStream::Stdout, text: delta() }]
            }
            _ => Vec::new(),
        }
    }
}
