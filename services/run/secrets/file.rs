//! Credentials in files that only the server can read: a folder for each profile, and in it a file for each key.

use super::{AUTH_JSON, KEYS, SecretError, SecretStore, checked_name};
use crate::known_profiles::profile_of_secret;
use kernel::files::make_folder;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub(super) struct FileSecrets {
    folder: PathBuf,
    /// One at a time writes: the file that becomes the new one has one name.
    writing: Mutex<()>,
}

impl FileSecrets {
    pub fn new(folder: &Path) -> FileSecrets {
        FileSecrets { folder: folder.to_owned(), writing: Mutex::default() }
    }

    fn folder_of(&self, profile: &str) -> Result<PathBuf, SecretError> {
        Ok(self.folder.join(checked_name(profile)?))
    }
}

impl SecretStore for FileSecrets {
    fn put(&self, profile: &str, keys: &BTreeMap<&str, &str>) -> Result<(), SecretError> {
        let folder = self.folder_of(profile)?;
        if let Some(unknown) = keys.keys().find(|key| !KEYS.contains(key)) {
            return Err(SecretError::Name((*unknown).to_owned()));
        }
        let _writing = self.writing.lock();
        make_folder(&folder)?;
        // The file that says whether there is a credential comes last, with a configuration that is already its own.
        for key in KEYS.iter().rev() {
            match keys.get(key) {
                Some(value) => replace(&folder, key, value)?,
                None => remove_file(&folder.join(key))?,
            }
        }
        sync_folder(&folder)?;
        Ok(sync_folder(&self.folder)?)
    }

    fn remove(&self, profile: &str) -> Result<(), SecretError> {
        let folder = self.folder_of(profile)?;
        let _writing = self.writing.lock();
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        Ok(sync_folder(&self.folder)?)
    }

    fn has(&self, profile: &str) -> Result<bool, SecretError> {
        Ok(self.folder_of(profile)?.join(AUTH_JSON).try_exists()?)
    }

    fn list(&self) -> Result<Vec<String>, SecretError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut profiles = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let profile = name.to_str().and_then(profile_of_secret);
            if let Some(profile) = profile.filter(|_| entry.path().join(AUTH_JSON).exists()) {
                profiles.push(profile.to_owned());
            }
        }
        profiles.sort();
        Ok(profiles)
    }
}

/// Whoever reads the file meanwhile reads the one before or the new one, also after a crash.
fn replace(folder: &Path, key: &str, value: &str) -> io::Result<()> {
    let new = folder.join(format!(".{key}.new"));
    remove_file(&new)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(value.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, folder.join(key))
}

fn remove_file(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// What was renamed, made or removed in a folder is on the disk only after that.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::CONFIG_TOML;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_credential_is_replaced_as_a_whole_and_only_its_owner_reads_it() {
        let data = tempfile::tempdir().unwrap();
        let root = data.path().join("secrets");
        let secrets = FileSecrets::new(&root);
        assert!(secrets.list().unwrap().is_empty() && !secrets.has("codex").unwrap());
        secrets.remove("codex").unwrap();
        let both = BTreeMap::from([(AUTH_JSON, "{}"), (CONFIG_TOML, "a = 1")]);
        secrets.put("codex", &both).unwrap();
        secrets.put("my-own", &BTreeMap::from([(AUTH_JSON, "{}")])).unwrap();
        assert_eq!(secrets.list().unwrap(), ["codex", "my-own"]);

        let folder = root.join("agentrun-v01-provider-codex");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&root), mode(&folder), mode(&folder.join(AUTH_JSON))), (0o700, 0o700, 0o600));
        fs::write(folder.join(".auth.json.new"), "left by a crash").unwrap();
        secrets.put("codex", &BTreeMap::from([(AUTH_JSON, "{\"a\":1}")])).unwrap();
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, [AUTH_JSON]);
        assert_eq!(fs::read_to_string(folder.join(AUTH_JSON)).unwrap(), "{\"a\":1}");

        secrets.remove("codex").unwrap();
        assert_eq!(
            (secrets.has("codex").unwrap(), secrets.list().unwrap()),
            (false, vec!["my-own".to_owned()])
        );
        for bad in ["", "..", "../x", "a/b", "A", "-a", &"a".repeat(64)] {
            assert!(matches!(secrets.put(bad, &both), Err(SecretError::Name(_))), "{bad}");
            assert!(matches!(secrets.remove(bad), Err(SecretError::Name(_))), "{bad}");
        }
        let other = BTreeMap::from([("../x", "")]);
        assert!(matches!(secrets.put("codex", &other), Err(SecretError::Name(_))));
    }
}
