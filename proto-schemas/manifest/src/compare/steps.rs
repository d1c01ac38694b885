//! What a comparison costs. A small manifest may refer to the same large list a thousand times, and two cycles of references whose lengths
//! have no common factor make more pairs than the manifests have bytes: so two values are compared once, and all of it has a limit.

use super::view::SchemaChoices;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ptr;

/// So many members and values are looked at in one comparison of two manifests.
const MOST: usize = 200_000;

#[derive(Default)]
pub(super) struct ComparisonSteps {
    taken: usize,
    /// The addresses of values that were compared. They belong to the two manifests, which outlive this.
    equal: HashMap<ValuePair, bool>,
    choices: HashMap<ValuePair, ChoicesChange>,
}

type ValuePair = (*const Value, *const Value);

/// How the choices of a schema differ from those of another one, whatever their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChoicesChange {
    pub gone: bool,
    pub added: bool,
}

impl ComparisonSteps {
    pub fn take(&mut self, steps: usize) {
        self.taken = self.taken.saturating_add(steps);
    }

    /// Whether the comparison has to end.
    pub fn are_over(&self) -> bool {
        self.taken > MOST
    }

    /// Whether two values are equal. What is not known any more, because the steps are over, is not.
    pub fn is_equal(&mut self, old: &Value, new: &Value) -> bool {
        let pair = (ptr::from_ref(old), ptr::from_ref(new));
        if let Some(known) = self.equal.get(&pair) {
            return *known;
        }
        let equal = self.have(old, new) && old == new;
        self.equal.insert(pair, equal);
        equal
    }

    /// Which choices are gone, and which are new.
    pub fn choices_change(&mut self, old: SchemaChoices<'_>, new: SchemaChoices<'_>) -> ChoicesChange {
        let pair = (ptr::from_ref(old.value()), ptr::from_ref(new.value()));
        if let Some(known) = self.choices.get(&pair) {
            return *known;
        }
        let change = match self.have(old.value(), new.value()) {
            true => {
                let (before, now) = (texts(old), texts(new));
                ChoicesChange { gone: !before.is_subset(&now), added: !now.is_subset(&before) }
            }
            false => ChoicesChange { gone: true, added: true },
        };
        self.choices.insert(pair, change);
        change
    }

    /// Takes the steps that a look at every part of two values needs.
    fn have(&mut self, old: &Value, new: &Value) -> bool {
        for value in [old, new] {
            let mut pending = vec![value];
            while let Some(value) = pending.pop() {
                self.take(1);
                if self.are_over() {
                    return false;
                }
                match value {
                    Value::Array(items) => pending.extend(items),
                    Value::Object(members) => pending.extend(members.values()),
                    _ => {}
                }
            }
        }
        true
    }
}

/// The choices as they are written, which for equal values of two canonical manifests is the same.
fn texts(choices: SchemaChoices<'_>) -> HashSet<String> {
    match choices {
        SchemaChoices::One(value) => HashSet::from([value.to_string()]),
        SchemaChoices::Listed(list) => list.as_array().into_iter().flatten().map(Value::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_values_are_compared_once_and_all_of_it_has_a_limit() {
        use SchemaChoices::{Listed, One};
        let mut steps = ComparisonSteps::default();
        let change = |gone, added| ChoicesChange { gone, added };
        let (old, new) = (json!([1, 2, { "a": 3 }]), json!([{ "a": 3 }, 2, 1]));
        for _ in 0..3 {
            assert_eq!(steps.choices_change(Listed(&old), Listed(&new)), change(false, false));
            assert!(!steps.is_equal(&old, &new));
        }
        assert_eq!(steps.taken, 20, "each of the two questions once: five values on both sides");
        let (one, listed, list) = (json!(1), json!([1]), json!([1]));
        assert_eq!(steps.choices_change(Listed(&listed), One(&one)), change(false, false));
        assert_eq!(steps.choices_change(One(&list), One(&one)), change(true, true));
        let large: Value = (0..MOST).collect();
        assert!(!steps.is_equal(&large, &large) && steps.are_over());
    }
}
