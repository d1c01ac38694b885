//! A manifest that was accepted.

use super::canonical::{canonical_form, sha256_hex};
use super::grammar;
use super::json::{self, ReadJson};
use super::model::{CapabilityFlags, ManifestWarning, Scope, Tool};
use super::refusal::{ManifestRefusal, Violations};
use super::schema::admits_no_object;
use serde::Deserialize;
use serde_json::Value;

/// So many bytes the canonical form of a manifest may have.
pub const LARGEST_BYTES: usize = 131_072;

/// From so many bytes on there is a warning.
pub const WARNED_BYTES: usize = 65_536;

/// A manifest that is acceptable, in its canonical form.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    canonical: String,
    hash: String,
    tools: Vec<Tool>,
    scopes: Vec<Scope>,
    flags: CapabilityFlags,
    warnings: Vec<ManifestWarning>,
}

/// The members that mean something. Others are kept in the canonical form, and so in the hash.
#[derive(Deserialize)]
struct KnownMembers {
    tools: Vec<Tool>,
    permission_scopes: Vec<Scope>,
    capability_flags: CapabilityFlags,
}

impl Manifest {
    /// Reads a manifest, and refuses it with everything that is wrong with it.
    pub fn parse(json: &str) -> Result<Manifest, ManifestRefusal> {
        let ReadJson { value, order } = json::read(json).map_err(ManifestRefusal::NotJson)?;
        let canonical = canonical_form(&value);
        if canonical.len() > LARGEST_BYTES {
            return Err(ManifestRefusal::TooLarge { limit: LARGEST_BYTES, actual: canonical.len() });
        }
        // What is decided is decided on the canonical form: it is what is stored, hashed and given to others.
        let value: Value =
            serde_json::from_str(&canonical).map_err(|error| ManifestRefusal::NotJson(error.to_string()))?;

        let mut found = Violations::default();
        grammar::check(&value, &mut found);
        if let Some(refusal) = found.into_refusal(&order) {
            return Err(refusal);
        }
        // The grammar has let it through, so the types fit.
        let members = KnownMembers::deserialize(value);
        let members = members.map_err(|error| ManifestRefusal::NotJson(error.to_string()))?;
        Ok(Manifest::of(members, canonical))
    }

    /// A manifest that was accepted before, from its canonical form: nothing is checked again.
    pub fn accepted(canonical: &str) -> Result<Manifest, ManifestRefusal> {
        let members =
            serde_json::from_str(canonical).map_err(|error| ManifestRefusal::NotJson(error.to_string()))?;
        Ok(Manifest::of(members, canonical.to_owned()))
    }

    fn of(members: KnownMembers, canonical: String) -> Manifest {
        let KnownMembers { tools, permission_scopes, capability_flags } = members;
        Manifest {
            warnings: warnings(&tools, canonical.len()),
            hash: sha256_hex(&canonical),
            canonical,
            tools,
            scopes: permission_scopes,
            flags: capability_flags,
        }
    }

    /// The canonical form of RFC 8785.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The lower-case hex SHA-256 of the canonical form.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// In the order of the manifest.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// In the order of the manifest.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// Those that are absent are false.
    pub fn flags(&self) -> CapabilityFlags {
        self.flags
    }

    /// What is accepted, and what the owner should know.
    pub fn warnings(&self) -> &[ManifestWarning] {
        &self.warnings
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The scope of this id.
    pub fn scope(&self, id: &str) -> Option<&Scope> {
        self.scopes.iter().find(|scope| scope.id == id)
    }
}

fn warnings(tools: &[Tool], bytes: usize) -> Vec<ManifestWarning> {
    let mut warnings = Vec::new();
    if bytes >= WARNED_BYTES {
        let message = format!("the manifest has {bytes} bytes, and {LARGEST_BYTES} are the limit");
        warnings.push(ManifestWarning { path: String::new(), message });
    }
    for (n, tool) in tools.iter().enumerate() {
        if admits_no_object(&tool.input_schema) {
            let path = format!("/tools/{n}/input_schema");
            let message = format!(
                "no arguments fit {}, because they are an object and its schema admits none",
                tool.name
            );
            warnings.push(ManifestWarning { path, message });
        } else if tool.input_schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            let path = format!("/tools/{n}/input_schema/additionalProperties");
            let message = format!("{} accepts arguments that it does not name: say false", tool.name);
            warnings.push(ManifestWarning { path, message });
        }
    }
    warnings
}
