//! What a grant has to know of a manifest. It is stored with it, so that nobody reads a whole manifest while others wait for its row.

use crate::Error;
use crate::store::agents::AgentRow;
use kernel::RpcError;
use manifest::Manifest;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConsentFacts {
    /// The ids of the scopes that are declared.
    pub scopes: Vec<String>,
    /// The tools that need their scope.
    pub required: Vec<RequiredTool>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequiredTool {
    pub tool: String,
    pub scope: String,
}

impl ConsentFacts {
    pub fn of(manifest: &Manifest) -> ConsentFacts {
        let required = manifest.tools().iter().filter(|tool| tool.required);
        ConsentFacts {
            scopes: manifest.scopes().iter().map(|scope| scope.id.clone()).collect(),
            required: required
                .map(|tool| RequiredTool { tool: tool.name.clone(), scope: tool.permission_scope.clone() })
                .collect(),
        }
    }

    /// Of the manifest that an agent has; there are none if it has none.
    pub fn stored(agent: &AgentRow) -> Result<ConsentFacts, Error> {
        let read = match (&agent.consent_facts, &agent.manifest) {
            (Some(facts), _) => serde_json::from_str(facts).ok(),
            (None, Some(manifest)) => ManifestHead::facts(manifest),
            (None, None) => Some(ConsentFacts::default()),
        };
        read.ok_or_else(|| {
            let cause = anyhow::anyhow!("the stored manifest of agent {} cannot be read", agent.id);
            RpcError::internal(cause).into()
        })
    }

    /// As they are stored.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("facts are plain data")
    }
}

/// The few members of a stored manifest that matter here; its schemas are skipped.
#[derive(Deserialize)]
struct ManifestHead {
    tools: Vec<ToolHead>,
    permission_scopes: Vec<ScopeHead>,
}

#[derive(Deserialize)]
struct ToolHead {
    name: String,
    permission_scope: String,
    #[serde(default)]
    required: bool,
}

#[derive(Deserialize)]
struct ScopeHead {
    id: String,
}

impl ManifestHead {
    fn facts(canonical: &str) -> Option<ConsentFacts> {
        let ManifestHead { tools, permission_scopes } = serde_json::from_str(canonical).ok()?;
        let required = tools.into_iter().filter(|tool| tool.required);
        Some(ConsentFacts {
            scopes: permission_scopes.into_iter().map(|scope| scope.id).collect(),
            required: required
                .map(|tool| RequiredTool { tool: tool.name, scope: tool.permission_scope })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_the_same_from_a_manifest_and_from_its_text() {
        let text = r#"{"schema_version":"1.0","agent_version":"1.0.0","capability_flags":{},
            "permission_scopes":[{"id":"filesystem:read","sensitivity":"medium","label_i18n_key":"scope.read"}],
            "tools":[{"name":"read_file","description_i18n_key":"a.b","required":true,"permission_scope":"filesystem:read",
                "input_schema":{"type":"object","additionalProperties":false}}]}"#;
        let manifest = Manifest::parse(text).expect("it is a manifest");
        let facts = ConsentFacts::of(&manifest);
        assert_eq!(facts.required.len(), 1);
        assert_eq!(ManifestHead::facts(manifest.canonical()), Some(facts));
    }
}
