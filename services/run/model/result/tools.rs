//! How the tools of the back end did. The start and the end of a call are two events, and count once.

use proto_schemas::requests::run::{ToolCallItem, ToolCallSummary};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// How many calls are shown.
const SHOWN: usize = 40;
/// How many calls are remembered, so that their end is found. Of more at once, an end counts as another call.
const REMEMBERED: usize = 256;
/// How many different statuses and exit codes are counted; the others count together.
const COUNTED: usize = 64;
const OTHER: &str = "other";
const LONGEST_COMMAND: usize = 600;
const LONGEST: usize = 200;

/// A `tool_call` as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCallEvent<'a> {
    #[serde(borrow)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    exit_code: Option<i64>,
    #[serde(borrow)]
    command: Option<Cow<'a, str>>,
}

/// A call that is remembered, by the whole of its id.
#[derive(Clone, Debug)]
struct RememberedCall {
    call_id: Option<String>,
    open: bool,
    item: ToolCallItem,
}

/// Counts the calls of a command, and remembers a bounded number of them.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolCallCounts {
    /// In the order of their starts.
    calls: VecDeque<RememberedCall>,
    /// With those that were forgotten.
    count: i64,
    /// Of those that were forgotten.
    statuses: BTreeMap<String, i64>,
    exit_codes: BTreeMap<String, i64>,
}

impl ToolCallCounts {
    /// Returns whether the call has ended.
    pub fn push(&mut self, payload: &str) -> bool {
        let Ok(event) = serde_json::from_str::<ToolCallEvent<'_>>(payload) else { return false };
        let call_id = event.call_id.as_deref();
        let known = call_id
            .and_then(|id| self.calls.iter_mut().rev().find(|call| call.call_id.as_deref() == Some(id)));
        if let Some(call) = known {
            // A second event without a status is the end.
            call.open = event.status.as_deref().is_some_and(is_open);
            call.item.update(&event);
            return !call.open;
        }
        let open = match event.status.as_deref() {
            Some(status) => is_open(status),
            None => call_id.is_some() && event.exit_code.is_none(),
        };
        let mut item = ToolCallItem { call_id: short(call_id, LONGEST), ..ToolCallItem::default() };
        item.update(&event);
        self.count += 1;
        if self.calls.len() == REMEMBERED {
            self.forget_one();
        }
        self.calls.push_back(RememberedCall { call_id: call_id.map(str::to_owned), open, item });
        !open
    }

    /// Forgets the oldest call that has ended; of those that have not, the end may still come.
    fn forget_one(&mut self) {
        let at = self.calls.iter().position(|call| !call.open).unwrap_or(0);
        if let Some(call) = self.calls.remove(at) {
            call.item.count(&mut self.statuses, &mut self.exit_codes);
        }
    }

    pub fn bytes(&self) -> usize {
        self.calls.iter().map(RememberedCall::bytes).sum()
    }

    pub fn any_open(&self) -> bool {
        self.calls.iter().any(|call| call.open)
    }

    pub fn summary(self) -> ToolCallSummary {
        let ToolCallCounts { calls, count, mut statuses, mut exit_codes } = self;
        calls.iter().for_each(|call| call.item.count(&mut statuses, &mut exit_codes));
        let older = calls.len().saturating_sub(SHOWN);
        ToolCallSummary {
            count,
            status_counts: statuses,
            exit_code_counts: exit_codes,
            items: calls.into_iter().skip(older).map(|call| call.item).collect(),
        }
    }
}

impl RememberedCall {
    fn bytes(&self) -> usize {
        let ToolCallItem { call_id, method, tool_name, kind, status, exit_code: _, command } = &self.item;
        let texts = [&self.call_id, call_id, method, tool_name, kind, status, command];
        size_of::<RememberedCall>() + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

trait CallItem {
    /// What a later event says replaces what an earlier one said.
    fn update(&mut self, event: &ToolCallEvent<'_>);
    fn count(&self, statuses: &mut BTreeMap<String, i64>, exit_codes: &mut BTreeMap<String, i64>);
}

impl CallItem for ToolCallItem {
    fn update(&mut self, event: &ToolCallEvent<'_>) {
        let newer = |new: &Option<Cow<'_, str>>, old: &mut Option<String>, longest: usize| {
            if let Some(new) = short(new.as_deref(), longest) {
                *old = Some(new);
            }
        };
        newer(&event.method, &mut self.method, LONGEST);
        newer(&event.tool_name, &mut self.tool_name, LONGEST);
        newer(&event.kind, &mut self.kind, LONGEST);
        newer(&event.status, &mut self.status, LONGEST);
        newer(&event.command, &mut self.command, LONGEST_COMMAND);
        self.exit_code = event.exit_code.or(self.exit_code);
    }

    fn count(&self, statuses: &mut BTreeMap<String, i64>, exit_codes: &mut BTreeMap<String, i64>) {
        if let Some(status) = &self.status {
            count_one(statuses, status.clone());
        }
        if let Some(code) = self.exit_code {
            count_one(exit_codes, code.to_string());
        }
    }
}

fn count_one(counts: &mut BTreeMap<String, i64>, word: String) {
    let word = match counts.len() < COUNTED || counts.contains_key(&word) {
        true => word,
        false => OTHER.to_owned(),
    };
    *counts.entry(word).or_default() += 1;
}

fn short(text: Option<&str>, longest: usize) -> Option<String> {
    text.map(|text| text.chars().take(longest).collect())
}

/// Whether a call with this status goes on. Back ends write it in their own ways: `inProgress`, `in_progress`, `started`.
fn is_open(status: &str) -> bool {
    let plain: String = status.chars().filter(char::is_ascii_alphabetic).take(16).collect();
    let words = ["started", "start", "begin", "pending", "queued", "running", "inprogress"];
    words.iter().any(|word| plain.eq_ignore_ascii_case(word))
}
