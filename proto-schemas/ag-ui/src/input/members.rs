//! The members of one object of an input, and what is wrong with them.

use super::json::{JsonContent, JsonNode, item_path, member_path};
use super::refusal::FormViolations;
use serde_json::Value;

pub(super) struct MemberReader<'n, 'f> {
    node: &'n JsonNode,
    path: String,
    found: &'f mut FormViolations,
}

impl<'n, 'f> MemberReader<'n, 'f> {
    /// Nothing, and a violation, where the value is no object.
    pub fn new(
        node: &'n JsonNode,
        path: String,
        found: &'f mut FormViolations,
    ) -> Option<MemberReader<'n, 'f>> {
        if !matches!(node.value, JsonContent::Members(_)) {
            let name = if path.is_empty() { "RunAgentInput" } else { "this" };
            found.add(node.at, &path, format!("{name} must be an object"));
            return None;
        }
        Some(MemberReader { node, path, found })
    }

    pub fn get(&self, name: &str) -> Option<&'n JsonNode> {
        self.node.member(name)
    }

    /// A violation in a member; in the object where the member is missing.
    pub fn refuse(&mut self, name: &str, message: impl Into<String>) {
        let at = self.get(name).map_or(self.node.at, |member| member.at);
        self.found.add(at, &member_path(&self.path, name), message);
    }

    /// A member that must be there.
    pub fn required(&mut self, name: &str) -> Option<&'n JsonNode> {
        let member = self.get(name);
        if member.is_none() {
            self.refuse(name, format!("{name} is required"));
        }
        member
    }

    /// A text that must be there.
    pub fn text(&mut self, name: &str) -> Option<&'n str> {
        self.required(name)?;
        self.optional_text(name)
    }

    /// A text that may be absent.
    pub fn optional_text(&mut self, name: &str) -> Option<&'n str> {
        let member = self.get(name)?;
        if member.as_str().is_none() {
            self.refuse(name, format!("{name} must be a string"));
        }
        member.as_str()
    }

    /// One of these words, which must be there.
    pub fn word(&mut self, name: &str, words: &[&str]) -> Option<&'n str> {
        let text = self.text(name)?;
        if words.contains(&text) {
            return Some(text);
        }
        self.refuse(name, format!("{name} must be {}", any_of(words)));
        None
    }

    /// Any object, if it is there.
    pub fn optional_object(&mut self, name: &str) {
        if self.get(name).is_some_and(|member| !matches!(member.value, JsonContent::Members(_))) {
            self.refuse(name, format!("{name} must be an object"));
        }
    }

    /// The members of an object that must be there.
    pub fn object(&mut self, name: &str) -> Option<MemberReader<'n, '_>> {
        let member = self.required(name)?;
        MemberReader::new(member, member_path(&self.path, name), self.found)
    }

    /// Reads each item of an array, which may be absent.
    pub fn each(&mut self, name: &str, read: impl Fn(&mut MemberReader<'n, '_>)) {
        let Some(member) = self.get(name) else { return };
        let JsonContent::Items(items) = &member.value else {
            return self.refuse(name, format!("{name} must be an array"));
        };
        let path = member_path(&self.path, name);
        for (n, item) in items.iter().enumerate() {
            if self.found.is_full_before(item.at) {
                return;
            }
            if let Some(mut item) = MemberReader::new(item, item_path(&path, n), self.found) {
                read(&mut item);
            }
        }
    }

    /// A text, or content blocks that are read one by one; it must be there.
    pub fn text_or_each(&mut self, name: &str, read: impl Fn(&mut MemberReader<'n, '_>)) {
        match self.required(name).map(|member| &member.value) {
            None | Some(JsonContent::Scalar(Value::String(_))) => (),
            Some(JsonContent::Items(_)) => self.each(name, read),
            Some(_) => self.refuse(name, format!("{name} must be a string or an array of content blocks")),
        }
    }
}

/// `"a", "b" or "c"`.
fn any_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}
