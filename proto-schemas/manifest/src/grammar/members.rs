//! The members of one object of a manifest.

use crate::pointer::join;
use crate::refusal::{Violations, rule};
use serde_json::{Map, Value};

pub(super) struct ObjectCheck<'m, 'f> {
    members: &'m Map<String, Value>,
    path: String,
    found: &'f mut Violations,
}

impl<'m, 'f> ObjectCheck<'m, 'f> {
    /// Nothing, and a violation, where the value is no object.
    pub fn new(value: &'m Value, path: String, found: &'f mut Violations) -> Option<ObjectCheck<'m, 'f>> {
        let Value::Object(members) = value else {
            found.add(path, rule::TYPE, "this must be an object");
            return None;
        };
        Some(ObjectCheck { members, path, found })
    }

    pub fn refuse(&mut self, name: &str, rule: &'static str, message: impl Into<String>) {
        let path = join(&self.path, name);
        self.found.add(path, rule, message);
    }

    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// For what a member is checked by elsewhere: its path, and where its violations go.
    pub fn inside(&mut self, name: &str) -> (String, &mut Violations) {
        (join(&self.path, name), &mut *self.found)
    }

    /// A member that must be there.
    pub fn required(&mut self, name: &str) -> Option<&'m Value> {
        let member = self.members.get(name);
        if member.is_none() {
            self.refuse(name, rule::REQUIRED, format!("{name} is missing"));
        }
        member
    }

    /// A text that must be there.
    pub fn text(&mut self, name: &str) -> Option<&'m str> {
        self.required(name)?;
        self.optional_text(name)
    }

    /// A text that may be absent.
    pub fn optional_text(&mut self, name: &str) -> Option<&'m str> {
        let member = self.members.get(name)?;
        if !member.is_string() {
            self.refuse(name, rule::TYPE, format!("{name} must be a string"));
        }
        member.as_str()
    }

    /// A truth value that may be absent.
    pub fn flag(&mut self, name: &str) {
        if self.members.get(name).is_some_and(|flag| !flag.is_boolean()) {
            self.refuse(name, rule::TYPE, format!("{name} must be true or false"));
        }
    }

    /// An integer that may be absent.
    pub fn integer(&mut self, name: &str, from: u64, to: u64) {
        let Some(member) = self.members.get(name) else { return };
        if !member.is_number() {
            self.refuse(name, rule::TYPE, format!("{name} must be a number"));
        } else if !member.as_u64().is_some_and(|number| (from..=to).contains(&number)) {
            self.refuse(name, rule::RANGE, format!("{name} must be an integer from {from} to {to}"));
        }
    }

    /// A list that must be there. What is beyond its limit is not looked at.
    pub fn list(&mut self, name: &str, most: usize) -> &'m [Value] {
        let Some(member) = self.required(name) else { return &[] };
        let Some(items) = member.as_array() else {
            self.refuse(name, rule::TYPE, format!("{name} must be an array"));
            return &[];
        };
        if items.len() > most {
            self.refuse(
                name,
                rule::TOO_MANY,
                format!("{name} may have {most} entries, and has {}", items.len()),
            );
        }
        &items[..items.len().min(most)]
    }
}
