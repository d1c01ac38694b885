//! What people are shown of scopes. Servers and clients have the texts of preset scopes from here; those of other scopes are the agent's
//! own. Keys of translations are for programs, and no person is shown one.

use super::model::{Scope, Sensitivity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Texts by scope, and then by the language: `zh` and `en` of a preset scope, and the agent's own under an empty name of another.
pub type TextsByScope = BTreeMap<String, BTreeMap<&'static str, ShownScope>>;

/// What a person is shown of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownScope {
    /// Its name.
    pub label: String,
    /// What an agent may do with it; empty where that is not known.
    pub description: String,
}

/// The languages that there are texts of preset scopes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// 中文
    Chinese,
    /// English, also for whoever reads neither.
    #[default]
    English,
}

/// A scope that every client knows.
struct PresetScope {
    id: &'static str,
    sensitivity: Sensitivity,
    zh: PresetText,
    en: PresetText,
}

struct PresetText {
    label: &'static str,
    description: &'static str,
}

const PRESETS: [PresetScope; 4] = [
    PresetScope {
        id: "notification:send",
        sensitivity: Sensitivity::Low,
        zh: PresetText { label: "发送系统通知", description: "在此设备上显示系统通知" },
        en: PresetText { label: "Send notifications", description: "Show notifications on this device" },
    },
    PresetScope {
        id: "filesystem:read",
        sensitivity: Sensitivity::Medium,
        zh: PresetText { label: "读取本地文件", description: "读取此设备上的文件内容" },
        en: PresetText {
            label: "Read local files",
            description: "Read the contents of files on this device",
        },
    },
    PresetScope {
        id: "clipboard:read",
        sensitivity: Sensitivity::Medium,
        zh: PresetText { label: "读取剪贴板", description: "读取当前复制的内容" },
        en: PresetText { label: "Read the clipboard", description: "Read what was copied last" },
    },
    PresetScope {
        id: "location:read",
        sensitivity: Sensitivity::High,
        zh: PresetText { label: "读取位置", description: "读取此设备的当前位置" },
        en: PresetText { label: "Read location", description: "Read where this device is" },
    },
];

/// How sensitive a preset scope is at least; none for a scope that is not preset.
pub fn preset_sensitivity(scope: &str) -> Option<Sensitivity> {
    preset(scope).map(|preset| preset.sensitivity)
}

/// The texts of all scopes of a manifest that was accepted, from its canonical form.
pub fn scope_texts(canonical: &str) -> TextsByScope {
    #[derive(Deserialize)]
    struct DeclaredScopes {
        permission_scopes: Vec<Scope>,
    }
    let declared = serde_json::from_str::<DeclaredScopes>(canonical);
    let scopes = declared.map(|declared| declared.permission_scopes).unwrap_or_default();
    let texts = scopes.iter().map(|scope| {
        let texts = match preset(&scope.id) {
            Some(preset) => BTreeMap::from([("zh", preset.zh.shown()), ("en", preset.en.shown())]),
            None => BTreeMap::from([("", scope.own_text())]),
        };
        (scope.id.clone(), texts)
    });
    texts.collect()
}

fn preset(scope: &str) -> Option<&'static PresetScope> {
    PRESETS.iter().find(|preset| preset.id == scope)
}

impl Scope {
    /// What a person is shown: an agent cannot give a preset scope another name. Of another scope, what the agent says; where it says
    /// nothing, the id of the scope.
    pub fn shown(&self, language: Language) -> ShownScope {
        match (preset(&self.id), language) {
            (Some(preset), Language::Chinese) => preset.zh.shown(),
            (Some(preset), Language::English) => preset.en.shown(),
            (None, _) => self.own_text(),
        }
    }

    fn own_text(&self) -> ShownScope {
        ShownScope {
            label: self.label_fallback.clone().unwrap_or_else(|| self.id.clone()),
            description: self.description_fallback.clone().unwrap_or_default(),
        }
    }
}

impl PresetText {
    fn shown(&self) -> ShownScope {
        ShownScope { label: self.label.to_owned(), description: self.description.to_owned() }
    }
}

impl Language {
    /// That of a locale, such as `zh_CN.UTF-8`.
    pub fn of_locale(locale: &str) -> Language {
        let language = locale.split(['_', '-', '.', '@']).next().unwrap_or_default();
        if language.eq_ignore_ascii_case("zh") { Language::Chinese } else { Language::English }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parsed, sample, sample_with, scope, with};
    use serde_json::{Value, json};

    fn texts_of(manifest: &Value) -> Value {
        serde_json::to_value(scope_texts(parsed(manifest).canonical())).unwrap()
    }

    #[test]
    fn preset_scopes_have_the_texts_and_sensitivities_of_the_specification() {
        let table = [
            (
                "notification:send",
                "low",
                "发送系统通知",
                "Send notifications",
                "在此设备上显示系统通知",
                "Show notifications on this device",
            ),
            (
                "filesystem:read",
                "medium",
                "读取本地文件",
                "Read local files",
                "读取此设备上的文件内容",
                "Read the contents of files on this device",
            ),
            (
                "clipboard:read",
                "medium",
                "读取剪贴板",
                "Read the clipboard",
                "读取当前复制的内容",
                "Read what was copied last",
            ),
            (
                "location:read",
                "high",
                "读取位置",
                "Read location",
                "读取此设备的当前位置",
                "Read where this device is",
            ),
        ];
        for (id, sensitivity, zh, en, zh_more, en_more) in table {
            let declared = json!({ "id": id, "label_i18n_key": "k", "sensitivity": "high" });
            let manifest = with(sample_with("/tools", json!([])), "/permission_scopes", json!([declared]));
            let texts = texts_of(&manifest);
            let expected = json!({
                "zh": { "label": zh, "description": zh_more }, "en": { "label": en, "description": en_more }
            });
            assert_eq!(texts[id], expected, "{id}");
            assert_eq!(preset_sensitivity(id).map(Sensitivity::as_str), Some(sensitivity), "{id}");
        }
        assert_eq!(PRESETS.len(), table.len());
        assert_eq!(preset_sensitivity("shell:exec"), None);
    }

    #[test]
    fn other_scopes_have_the_texts_of_their_agent_and_presets_have_not() {
        let mut other = scope("shell:exec", "high");
        (other["label_fallback"], other["description_fallback"]) =
            (json!("运行命令"), json!("Runs commands"));
        let mut manifest = sample_with("/permission_scopes/1", other);
        manifest["permission_scopes"][0]["label_fallback"] = json!("Nothing at all");
        let texts = texts_of(&manifest);
        assert_eq!(
            texts["shell:exec"],
            json!({ "": { "label": "运行命令", "description": "Runs commands" } })
        );
        assert_eq!(texts["filesystem:read"]["en"]["label"], "Read local files");
        assert_eq!(texts.as_object().unwrap().len(), 2);
        let manifest = parsed(&manifest);
        let shown = |id: &str, language| manifest.scope(id).unwrap().shown(language).label;
        assert_eq!(shown("filesystem:read", Language::Chinese), "读取本地文件");
        assert_eq!(shown("filesystem:read", Language::English), "Read local files");
        assert_eq!(shown("shell:exec", Language::English), "运行命令");
    }

    #[test]
    fn nobody_is_shown_the_key_of_a_translation() {
        // What was accepted before texts were required.
        let mut old = sample();
        let key = "agent.scope.shell_exec.label";
        old["permission_scopes"] =
            json!([{ "id": "shell:exec", "label_i18n_key": key, "sensitivity": "high" }]);
        let texts = scope_texts(&old.to_string());
        assert_eq!(
            texts["shell:exec"][""],
            ShownScope { label: "shell:exec".into(), description: String::new() }
        );
        assert!(scope_texts("{}").is_empty());
    }

    #[test]
    fn a_locale_has_a_language() {
        for chinese in ["zh_CN.UTF-8", "zh", "zh-TW", "ZH_HK@x"] {
            assert_eq!(Language::of_locale(chinese), Language::Chinese, "{chinese}");
        }
        for other in ["", "C", "C.UTF-8", "en_US.UTF-8", "de_DE", "zho"] {
            assert_eq!(Language::of_locale(other), Language::English, "{other}");
        }
    }
}
