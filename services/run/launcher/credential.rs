//! What a runner is told on its standard input: its token and the credential of its profile. Nothing of it is in a file or an argument.

use crate::store::ProfileRow;
use serde::Serialize;

/// One JSON object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunnerInput<'a> {
    pub token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_json: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_toml: Option<&'a str>,
}

/// The configuration of a Codex whose profile names a model or where it is, and has none of its own.
pub(super) fn config_of(row: &ProfileRow) -> Option<String> {
    let mut lines = Vec::new();
    // What JSON quotes is quoted for TOML, too.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    if let Some(model) = &row.model {
        lines.push(format!("model = {}", quoted(model)));
    }
    if let Some(url) = &row.base_url {
        lines.push("model_provider = \"profile\"".to_owned());
        lines.push("[model_providers.profile]".to_owned());
        lines.push(format!("name = {}", quoted(&row.profile)));
        lines.push(format!("base_url = {}", quoted(url)));
        lines.push("wire_api = \"responses\"".to_owned());
        lines.push("requires_openai_auth = true".to_owned());
    }
    (!lines.is_empty()).then(|| lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_with_a_model_has_a_configuration() {
        let row = |base_url: Option<&str>, model: Option<&str>| ProfileRow {
            profile: "mine".to_owned(),
            secret_version: String::new(),
            secret_keys: String::new(),
            version: 1,
            hash_suffix: String::new(),
            base_url: base_url.map(str::to_owned),
            model: model.map(str::to_owned),
            updated_at: 0,
        };
        assert_eq!(config_of(&row(None, None)), None);
        assert_eq!(config_of(&row(None, Some("a \"b\""))).unwrap(), "model = \"a \\\"b\\\"\"\n");
        let whole = config_of(&row(Some("https://models.example/v1"), Some("m"))).unwrap();
        assert!(whole.starts_with("model = \"m\"\nmodel_provider = \"profile\"\n"), "{whole}");
        assert!(whole.contains("base_url = \"https://models.example/v1\"\n"), "{whole}");
    }

    #[test]
    fn what_is_absent_is_not_written() {
        let input = RunnerInput { token: "arr_1", auth_json: None, config_toml: Some("a = 1") };
        assert_eq!(serde_json::to_string(&input).unwrap(), r#"{"token":"arr_1","configToml":"a = 1"}"#);
    }
}
