//! The input of a runner: its token, and with `--credential-input` the credential of its profile.

use anyhow::anyhow;
use serde::Deserialize;
use serde_json::Value;

/// The JSON object that `--credential-input` announces.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CredentialInput {
    pub token: String,
    /// The content of `--credential-file`.
    pub auth_json: Option<String>,
    /// The content of `--config-file`.
    pub config_toml: Option<String>,
}

impl CredentialInput {
    /// The words of the parser are left out, because they quote what they refuse.
    pub fn read(text: &str) -> anyhow::Result<CredentialInput> {
        serde_json::from_str(text).map_err(|error| {
            anyhow!(
                "the input must be a JSON object with the strings token, authJson and configToml, of which only token is required \
                 (line {}, column {})",
                error.line(),
                error.column()
            )
        })
    }
}

/// The API key in a credential, for a back end that gets it in a variable: `OPENAI_API_KEY` of an `auth.json`, or else the whole text.
pub(super) fn api_key(credential: &str) -> String {
    let document = serde_json::from_str::<Value>(credential).ok();
    let key = document.as_ref().and_then(|document| document.get("OPENAI_API_KEY")?.as_str());
    key.unwrap_or(credential.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_is_an_object_of_strings() {
        let input = CredentialInput::read("{\"token\": \"arr_1\", \"authJson\": \"{}\"}\n").unwrap();
        assert_eq!((input.token.as_str(), input.auth_json.as_deref()), ("arr_1", Some("{}")));
        assert_eq!(input.config_toml, None);
    }

    #[test]
    fn what_is_refused_is_not_shown() {
        for text in [
            "arr_a_secret",
            "\"arr_a_secret\"",
            "{\"token\": [\"arr_a_secret\"]}",
            "{\"authJson\": \"arr_a_secret\"}",
            "{\"token\": \"arr_1\", \"arr_a_secret\": 1}",
            "{\"token\": \"arr_1\", \"authJson\": {\"key\": \"arr_a_secret\"}}",
            "{\"token\": \"arr_a_secret\"",
        ] {
            let refused = CredentialInput::read(text).err().unwrap().to_string();
            assert!(refused.starts_with("the input must be a JSON object"), "{refused}");
            assert!(!refused.contains("arr_a_secret"), "{refused}");
        }
    }

    #[test]
    fn an_api_key_is_a_text_or_a_member() {
        for (credential, key) in [
            ("sk-1\n", "sk-1"),
            (" {\"OPENAI_API_KEY\": \"sk-2\", \"tokens\": null}\n", "sk-2"),
            ("{\"OPENAI_API_KEY\": null}\n", "{\"OPENAI_API_KEY\": null}"),
            ("{\"key\": \"sk-3\"}", "{\"key\": \"sk-3\"}"),
            ("\"sk-4\"", "\"sk-4\""),
        ] {
            assert_eq!(api_key(credential), key, "{credential}");
        }
    }
}
