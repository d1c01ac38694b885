//! How large and how deep a schema may be, and how long the way to its parts.

use crate::pointer::join;
use crate::refusal::{Violations, rule};
use serde_json::Value;

/// How deep objects and arrays may be nested, the schema itself being the first.
const DEEPEST: usize = 32;

/// How many bytes the JSON Pointer to a part may have: what is wrong is reported with its pointer, and there may be many of them.
const LONGEST_POINTER: usize = 1024;

/// How many values the schemas of a manifest may have together, each object, list, text and number counted.
const MOST_VALUES: usize = 10_000;

/// Reports the first part beyond each limit, and looks at nothing below it. `values` counts those of the whole manifest.
pub(super) fn check(schema: &Value, path: &str, values: &mut usize, found: &mut Violations) {
    let (mut deep, mut long) = (false, false);
    let mut pending = vec![(schema, String::new(), 1)];
    while let Some((value, at, depth)) = pending.pop() {
        *values += 1;
        if *values > MOST_VALUES {
            let message = format!("the schemas of a manifest may have {MOST_VALUES} values together");
            found.add(path, rule::TOO_MANY, message);
            return;
        }
        if at.len() > LONGEST_POINTER {
            if !long {
                let message = format!("the JSON Pointer of this has over {LONGEST_POINTER} bytes");
                found.add(format!("{path}{}", within_limit(&at)), rule::LENGTH, message);
            }
            long = true;
            continue;
        }
        if depth > DEEPEST && (value.is_object() || value.is_array()) {
            if !deep {
                found.add(
                    format!("{path}{at}"),
                    rule::NESTING,
                    format!("this is nested deeper than {DEEPEST} levels"),
                );
            }
            deep = true;
            continue;
        }
        match value {
            Value::Object(members) => {
                let members = members.iter().rev();
                pending.extend(members.map(|(name, member)| (member, join(&at, name), depth + 1)));
            }
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                pending.extend(items.map(|(n, item)| (item, join(&at, &n.to_string()), depth + 1)));
            }
            _ => {}
        }
    }
}

/// The pointer to the last part that is within the limit.
fn within_limit(pointer: &str) -> &str {
    let ends = pointer.match_indices('/').map(|(end, _)| end);
    &pointer[..ends.take_while(|end| *end <= LONGEST_POINTER).last().unwrap_or(0)]
}
