//! The grammar of a manifest, row by row. All violations are found, not only the first.

mod members;
mod names;
mod scopes;
mod tools;

#[cfg(test)]
mod tests;

use super::refusal::{Violations, rule};
use members::ObjectCheck;
use semver::Version;
use serde_json::Value;
use std::collections::BTreeSet;

const MOST_TOOLS: usize = 256;
const MOST_SCOPES: usize = 64;
const FLAGS: [&str; 4] =
    ["supports_streaming", "supports_artifacts", "supports_voice", "supports_group_chat"];

/// Finds what is wrong with a manifest. Members that the grammar does not know are left alone.
pub(crate) fn check(manifest: &Value, found: &mut Violations) {
    let Some(mut members) = ObjectCheck::new(manifest, String::new(), found) else { return };
    if members.text("schema_version").is_some_and(|version| version != "1.0") {
        members.refuse("schema_version", rule::VALUE, "schema_version must be \"1.0\"");
    }
    if members.text("agent_version").is_some_and(|version| Version::parse(version).is_err()) {
        members.refuse("agent_version", rule::FORMAT, "agent_version must be a version of SemVer 2.0.0");
    }
    let tools = members.list("tools", MOST_TOOLS);
    let scopes = members.list("permission_scopes", MOST_SCOPES);
    if let Some(flags) = members.required("capability_flags") {
        check_flags(flags, found);
    }
    let declared: BTreeSet<&str> = scopes.iter().filter_map(|scope| scope.get("id")?.as_str()).collect();
    tools::check(tools, &declared, found);
    scopes::check(scopes, found);
}

fn check_flags(flags: &Value, found: &mut Violations) {
    let Some(mut flags) = ObjectCheck::new(flags, "/capability_flags".to_owned(), found) else { return };
    for name in FLAGS {
        flags.flag(name);
    }
}
