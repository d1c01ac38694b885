//! What a schema would be with its references written out. A short schema may be an endless one, or one with more parts than anybody
//! can look at: the validator walks through all of them, and remembers what it has seen for recursive references only.

use super::positions::{SchemaPosition, inside};
use super::references::LocalReferences;
use crate::refusal::{Violations, rule};
use serde_json::Value;
use std::collections::HashMap;
use std::ptr;

/// How many parts a schema may have.
const MOST_PARTS: u64 = 50_000;

/// How deep it may be. Arguments are bounded, too (`arguments`), so that both together fit on a stack.
const DEEPEST: usize = 64;

/// Keywords whose schemas look at the same value as the schema that has them.
const SAME_VALUE: [&str; 9] =
    ["allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"];

/// Where schemas only wait to be referred to.
const ELSEWHERE: [&str; 2] = ["$defs", "definitions"];

/// Finds schemas that never end, and those that are too large.
pub(super) fn check(
    references: &LocalReferences<'_>,
    positions: &[SchemaPosition<'_>],
    path: &str,
    found: &mut Violations,
) {
    if let Some(endless) = endless(references, positions) {
        let message = "this leads back to itself without looking into the arguments, and never ends";
        found.add(format!("{path}{}", endless.path), rule::LOCAL_REFERENCE, message);
        return;
    }
    let mut expansion = Expansion { references, sizes: HashMap::new() };
    let whole = positions.first().and_then(|root| expansion.size(root.schema, 1));
    if whole.is_none_or(|size| size.parts > MOST_PARTS) {
        let message = format!(
            "with its references written out this has over {MOST_PARTS} parts, or is deeper than {DEEPEST} levels"
        );
        found.add(path, rule::NESTING, message);
    }
}

/// The schemas that a schema uses: those of some of its keywords, and what its references lead to.
fn used<'s>(
    schema: &'s Value,
    references: &LocalReferences<'s>,
    keyword_counts: fn(&str) -> bool,
) -> Vec<&'s Value> {
    let whole = SchemaPosition { path: String::new(), schema };
    let parts = inside(&whole).into_iter().filter(|part| {
        let keyword = part.path.split('/').nth(1).unwrap_or_default();
        keyword_counts(keyword)
    });
    let mut used: Vec<&Value> = parts.map(|part| part.schema).collect();
    for keyword in ["$ref", "$dynamicRef"] {
        let reference = schema.get(keyword).and_then(Value::as_str);
        used.extend(reference.and_then(|reference| references.resolve(reference)).map(|(_, target)| target));
    }
    used
}

/// A schema that uses itself for the same value, over whatever others. Schemas that use no other are taken away, then those that used
/// only these, and so on: what is left leads into a cycle.
fn endless<'p, 's>(
    references: &LocalReferences<'s>,
    positions: &'p [SchemaPosition<'s>],
) -> Option<&'p SchemaPosition<'s>> {
    let numbers: HashMap<*const Value, usize> =
        positions.iter().enumerate().map(|(n, position)| (ptr::from_ref(position.schema), n)).collect();
    let (mut uses, mut users) = (vec![0_usize; positions.len()], vec![Vec::new(); positions.len()]);
    for (n, position) in positions.iter().enumerate() {
        for target in used(position.schema, references, |keyword| SAME_VALUE.contains(&keyword)) {
            if let Some(target) = numbers.get(&ptr::from_ref(target)) {
                uses[n] += 1;
                users[*target].push(n);
            }
        }
    }
    let mut ended: Vec<usize> = (0..positions.len()).filter(|n| uses[*n] == 0).collect();
    while let Some(n) = ended.pop() {
        for user in &users[n] {
            uses[*user] -= 1;
            if uses[*user] == 0 {
                ended.push(*user);
            }
        }
    }
    uses.iter().position(|left| *left > 0).map(|n| &positions[n])
}

/// How large a schema is.
#[derive(Clone, Copy)]
struct WrittenOutSize {
    parts: u64,
    depth: usize,
}

struct Expansion<'r, 's> {
    references: &'r LocalReferences<'s>,
    /// None while a schema is being measured: a recursive reference to it counts as one part, because it looks at a part of the
    /// arguments, and those end.
    sizes: HashMap<*const Value, Option<WrittenOutSize>>,
}

impl<'s> Expansion<'_, 's> {
    /// None where it is too deep.
    fn size(&mut self, schema: &'s Value, level: usize) -> Option<WrittenOutSize> {
        let known = self.sizes.get(&ptr::from_ref(schema)).copied();
        if let Some(known) = known {
            let size = known.unwrap_or(WrittenOutSize { parts: 1, depth: 1 });
            return (level + size.depth <= DEEPEST + 1).then_some(size);
        }
        if level > DEEPEST {
            return None;
        }
        self.sizes.insert(ptr::from_ref(schema), None);
        let mut whole = WrittenOutSize { parts: 1, depth: 1 };
        for part in used(schema, self.references, |keyword| !ELSEWHERE.contains(&keyword)) {
            let part = self.size(part, level + 1)?;
            whole.parts = whole.parts.saturating_add(part.parts);
            whole.depth = whole.depth.max(part.depth + 1);
        }
        self.sizes.insert(ptr::from_ref(schema), Some(whole));
        Some(whole)
    }
}
