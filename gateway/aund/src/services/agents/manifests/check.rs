//! `aund agent manifest check`: everything that is wrong, or the scopes as a person would see them.

use super::read;
use crate::agent_args;
use crate::show::{Show, printable_line};
use anyhow::bail;
use clap::Args;
use manifest::{Language, Manifest, ManifestRefusal, Scope, ShownScope, Violation, scope_texts};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct CheckManifestCommand {
    /// The manifest, as JSON
    file: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// Print without colours
    #[arg(long)]
    plain: bool,
}

impl CheckManifestCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let show = Show::new(self.json, self.plain);
        let file = self.file.display();
        match read(&self.file)? {
            Ok(manifest) if show.json => show.line(&accepted(&manifest).to_string())?,
            Ok(manifest) => {
                for line in shown(&manifest, agent_args::language(), show) {
                    show.line(&line)?;
                }
            }
            Err(refusal) => {
                if show.json {
                    show.line(&refused(&refusal).to_string())?;
                }
                let ManifestRefusal::Invalid { code, violations } = refusal else {
                    bail!("{file}: {refusal}")
                };
                for violation in violations.iter().filter(|_| !show.json) {
                    show.line(&in_a_line(violation, show))?;
                }
                let count =
                    if violations.len() == 1 { "1 rule" } else { &format!("{} rules", violations.len()) };
                bail!("{file} is refused: it breaks {count} ({code})");
            }
        }
        Ok(())
    }
}

fn accepted(manifest: &Manifest) -> Value {
    json!({
        "accepted": true,
        "hash": manifest.hash(),
        "bytes": manifest.canonical().len(),
        "warnings": manifest.warnings(),
        "scopes": manifest.scopes(),
        "scope_texts": scope_texts(manifest.canonical()),
        "tools": manifest.tools(),
    })
}

fn refused(refusal: &ManifestRefusal) -> Value {
    match refusal {
        ManifestRefusal::NotJson(reason) => {
            json!({ "accepted": false, "code": "INVALID_JSON", "message": reason })
        }
        ManifestRefusal::TooLarge { limit, actual } => {
            json!({ "accepted": false, "code": "MANIFEST_TOO_LARGE", "limit": limit, "actual": actual })
        }
        ManifestRefusal::Invalid { code, violations } => {
            json!({ "accepted": false, "code": code, "violations": violations })
        }
    }
}

fn in_a_line(violation: &Violation, show: Show) -> String {
    // A pointer to the whole document is empty.
    let path = if violation.path.is_empty() { "(whole)" } else { &violation.path };
    let rule = show.dim(&format!("({})", violation.rule));
    format!("{}  {} {rule}", show.bold(&printable_line(path)), printable_line(&violation.message))
}

fn shown(manifest: &Manifest, language: Language, show: Show) -> Vec<String> {
    let bytes = manifest.canonical().len();
    let mut lines = vec![format!("{}  {bytes} bytes  {}", show.green("accepted"), show.dim(manifest.hash()))];
    for warning in manifest.warnings() {
        let path = if warning.path.is_empty() { "(whole)" } else { &warning.path };
        lines.push(format!(
            "{} {}: {}",
            show.yellow("warning"),
            printable_line(path),
            printable_line(&warning.message)
        ));
    }
    if manifest.scopes().is_empty() {
        lines.push("it asks for nothing".to_owned());
    }
    for scope in manifest.scopes() {
        lines.extend(scope_lines(manifest, scope, language, show));
    }
    lines
}

/// The name, the description and the tools of a scope, as a person is asked to grant it.
fn scope_lines(manifest: &Manifest, scope: &Scope, language: Language, show: Show) -> Vec<String> {
    let ShownScope { label, description } = scope.shown(language);
    let head =
        format!("{}  {}  {}", show.bold(&printable_line(&label)), scope.sensitivity, show.dim(&scope.id));
    let mut lines = vec![head];
    if !description.is_empty() {
        lines.push(format!("    {}", printable_line(&description)));
    }
    let tools = manifest.tools().iter().filter(|tool| tool.permission_scope == scope.id);
    let mut tools = tools.peekable();
    if tools.peek().is_none() {
        lines.push("    for no tool yet".to_owned());
    }
    lines.extend(tools.map(|tool| {
        let needed = if tool.required { ", without which the agent does not work" } else { "" };
        format!("    for {}, up to {} ms{needed}", show.cyan(&tool.name), tool.timeout_ms)
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: bool = true;

    #[test]
    fn a_person_sees_names_and_nothing_that_moves_the_cursor() {
        let manifest = json!({
            "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {},
            "tools": [{
                "name": "run_it", "description_i18n_key": "k", "permission_scope": "shell:exec", "required": true,
                "input_schema": { "type": "object" }
            }],
            "permission_scopes": [
                { "id": "shell:exec", "label_i18n_key": "k", "sensitivity": "high",
                  "label_fallback": "Run\u{1b}[2J commands", "description_fallback": "Runs\nwhat it likes" },
                { "id": "location:read", "label_i18n_key": "agent.scope.location_read.label",
                  "description_i18n_key": "agent.scope.location_read.description", "sensitivity": "high" }
            ]
        });
        let manifest = Manifest::parse(&manifest.to_string()).unwrap();
        let lines = shown(&manifest, Language::English, Show::new(false, PLAIN));
        assert!(lines[0].starts_with("accepted  "), "{lines:?}");
        assert_eq!(
            lines[2..],
            [
                "Run\\u001b[2J commands  high  shell:exec",
                "    Runs what it likes",
                "    for run_it, up to 10000 ms, without which the agent does not work",
                "Read location  high  location:read",
                "    Read where this device is",
                "    for no tool yet",
            ]
        );
        let chinese = shown(&manifest, Language::Chinese, Show::new(false, PLAIN));
        assert_eq!(chinese[5..7], ["读取位置  high  location:read", "    读取此设备的当前位置"]);
        assert!(lines[1].starts_with("warning /tools/0/input_schema/additionalProperties: "), "{lines:?}");
    }
}
