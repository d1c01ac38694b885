//! Where Codex keeps what it needs: the storage of the session. The files with a credential are there only while Codex runs.

use crate::back_end::BackEndError;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const AUTH: &str = "auth.json";
const CONFIG: &str = "config.toml";
/// The thread of the session, for a runner whose manager does not know it, because the one before was killed.
const THREAD: &str = "thread.json";

/// What a back end with Codex is given.
#[derive(Clone, Default)]
pub struct CodexFiles {
    /// The folder that all runners of a session get, one after the other.
    pub storage: PathBuf,
    /// The content of `auth.json`, or an API key.
    pub credential: Option<String>,
    /// The content of `config.toml`.
    pub config: Option<String>,
}

/// The files of a Codex that runs. With this they are removed.
pub(super) struct CredentialFiles {
    home: PathBuf,
}

impl CodexFiles {
    /// What Codex is told as `CODEX_HOME`.
    pub(super) fn home(&self) -> PathBuf {
        self.storage.join("codex")
    }

    /// What must not be said: the credential, and the texts of the configuration whose names say so. The texts of a credential that is JSON
    /// are found as well, as those of every JSON document among the secrets.
    pub fn secrets(&self) -> Vec<String> {
        let config = self.config.as_deref().and_then(|config| config.parse::<toml::Table>().ok());
        let mut secrets: Vec<String> = self.credential.iter().cloned().collect();
        add_secrets(&toml::Value::Table(config.unwrap_or_default()), false, &mut secrets);
        secrets
    }

    /// Writes the files, for their owner alone.
    pub(super) fn write(&self) -> Result<CredentialFiles, BackEndError> {
        let home = self.home();
        let written = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&home)?;
            // What a runner has left that was killed is of no use.
            let files = CredentialFiles { home: home.clone() };
            files.remove()?;
            for (name, content) in [(AUTH, self.auth()), (CONFIG, self.config.clone())] {
                if let Some(content) = content {
                    write_new(&home.join(name), &content)?;
                }
            }
            Ok(files)
        };
        written().map_err(|error: io::Error| self.unusable(&error))
    }

    fn auth(&self) -> Option<String> {
        let credential = self.credential.as_deref()?.trim();
        let is_object = serde_json::from_str::<Value>(credential).is_ok_and(|value| value.is_object());
        match is_object {
            true => Some(credential.to_owned()),
            false => Some(json!({ "OPENAI_API_KEY": credential }).to_string()),
        }
    }

    /// The thread that a runner of this storage has begun.
    pub(super) fn thread(&self) -> Option<String> {
        let kept: Value = serde_json::from_slice(&fs::read(self.storage.join(THREAD)).ok()?).ok()?;
        kept["threadId"].as_str().map(str::to_owned)
    }

    pub(super) fn keep_thread(&self, thread_id: &str) -> Result<(), BackEndError> {
        let (file, next) = (self.storage.join(THREAD), self.storage.join("thread.json.next"));
        let kept = || {
            removed(&next)?;
            write_new(&next, &json!({ "threadId": thread_id }).to_string())?;
            fs::rename(&next, &file)
        };
        kept().map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &io::Error) -> BackEndError {
        BackEndError {
            failure_kind: "infra-failed",
            message: format!("the storage {} cannot be used: {error}", self.storage.display()),
        }
    }
}

impl CredentialFiles {
    fn remove(&self) -> io::Result<()> {
        removed(&self.home.join(AUTH))?;
        removed(&self.home.join(CONFIG))
    }
}

impl Drop for CredentialFiles {
    fn drop(&mut self) {
        // What cannot be removed is removed before the next start.
        let _ = self.remove();
    }
}

fn add_secrets(value: &toml::Value, is_secret: bool, secrets: &mut Vec<String>) {
    match value {
        toml::Value::String(text) if is_secret => {
            // Of `Bearer VALUE` the value alone must not be said, either.
            secrets.extend(text.split_whitespace().last().map(str::to_owned));
            secrets.push(text.clone());
        }
        toml::Value::Array(items) => items.iter().for_each(|item| add_secrets(item, is_secret, secrets)),
        toml::Value::Table(members) => {
            for (name, member) in members {
                add_secrets(member, is_secret || is_name_of_secret(name), secrets);
            }
        }
        _ => {}
    }
}

/// `env_key` and its like name a variable, and are no secrets.
fn is_name_of_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let words = ["token", "secret", "password", "api_key", "apikey", "authorization"];
    !name.contains("env") && words.iter().any(|word| name.contains(word))
}

/// A new file is never one that a link leads to.
fn write_new(file: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(content.as_bytes())
}

fn removed(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{Redactor, RunnerSecrets};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn files(storage: &Path, credential: &str) -> CodexFiles {
        CodexFiles {
            storage: storage.to_owned(),
            credential: Some(credential.to_owned()),
            config: Some("model = \"m\"".to_owned()),
        }
    }

    #[test]
    fn the_files_are_there_while_codex_runs() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder.path().join("session"), "sk-a-key\n");
        let written = files.write().unwrap();
        let auth = files.home().join(AUTH);
        assert_eq!(fs::read_to_string(&auth).unwrap(), r#"{"OPENAI_API_KEY":"sk-a-key"}"#);
        assert_eq!(fs::read_to_string(files.home().join(CONFIG)).unwrap(), "model = \"m\"");
        assert_eq!(fs::metadata(&auth).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(files.home()).unwrap().permissions().mode() & 0o777, 0o700);
        drop(written);
        assert_eq!(fs::read_dir(files.home()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_left_is_replaced_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let mut files = files(folder.path(), r#" {"tokens": {}} "#);
        fs::create_dir(files.home()).unwrap();
        symlink(&outside, files.home().join(AUTH)).unwrap();
        let written = files.write().unwrap();
        assert_eq!(fs::read_to_string(files.home().join(AUTH)).unwrap(), r#"{"tokens": {}}"#);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
        std::mem::forget(written);
        (files.credential, files.config) = (None, None);
        let written = files.write().unwrap();
        assert_eq!(fs::read_dir(files.home()).unwrap().count(), 0, "it is of a runner that was killed");
        drop(written);
    }

    #[test]
    fn the_secrets_of_a_configuration_are_known_by_their_names() {
        let config = r#"
            model = "a-model-of-ours"
            [model_providers.ours]
            env_key = "THE_API_KEY"
            experimental_bearer_token = "token-of-ours"
            http_headers = { "Authorization" = "Bearer header-of-ours", "X-Team" = "team-of-ours" }
        "#;
        let mut files = files(Path::new("/"), "sk-a-key");
        files.config = Some(config.to_owned());
        let mut secrets = files.secrets();
        secrets.sort();
        assert_eq!(
            secrets,
            ["Bearer header-of-ours", "header-of-ours", "sk-a-key", "token-of-ours", "token-of-ours"]
        );
        files.config = Some("no = [toml".to_owned());
        assert_eq!(files.secrets(), ["sk-a-key"]);
    }

    #[test]
    fn the_texts_of_a_credential_are_secrets() {
        let credential =
            r#"{"OPENAI_API_KEY": null, "tokens": {"access": "access-of-ours", "ids": ["id-of-ours"]}}"#;
        let mut secrets = RunnerSecrets::default();
        files(Path::new("/"), credential).secrets().into_iter().for_each(|secret| secrets.add(secret));
        let redactor = Redactor::new(&secrets, []).unwrap();
        assert_eq!(redactor.text("access-of-ours, id-of-ours"), "[redacted], [redacted]");
    }

    #[test]
    fn the_thread_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path(), "k");
        assert_eq!(files.thread(), None);
        for thread in ["t1", "t2"] {
            files.keep_thread(thread).unwrap();
            assert_eq!(files.thread().as_deref(), Some(thread));
        }
        fs::write(folder.path().join(THREAD), "garbage").unwrap();
        assert_eq!(files.thread(), None);
    }

    #[test]
    fn a_storage_that_cannot_be_used_is_said_without_its_credential() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = files(&file, "sk-a-key").write().err().unwrap();
        assert_eq!(refused.failure_kind, "infra-failed");
        assert!(
            refused.message.contains("cannot be used") && !refused.message.contains("sk-a-key"),
            "{refused}"
        );
        assert!(files(&file, "k").keep_thread("t").is_err());
    }
}
