//! Credentials in files that only the server can read: a folder for each profile, and in it a file for each key.
//!
//! `agentrun-v01-provider-codex` is a link to a folder beside it, which is written once and never changed. A new credential is a new
//! folder, and then the link is replaced: a key never stands beside the configuration of another one, also after a crash in between.
//! Whoever reads both files reads the link once, and both files in the folder that it names. A folder without a link that an operator
//! has made is read as it is.

use super::{AUTH_JSON, KEYS, SecretError, SecretStore, StoredCredential, checked_name};
use crate::known_profiles::profile_of_secret;
use kernel::Ids;
use kernel::files::make_folder;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) struct FileSecrets {
    folder: PathBuf,
    ids: Ids,
    /// One at a time writes. Other processes that share the folder wait for the row of the profile.
    writing: Mutex<()>,
}

impl FileSecrets {
    pub fn new(folder: &Path, ids: &Ids) -> FileSecrets {
        FileSecrets { folder: folder.to_owned(), ids: ids.clone(), writing: Mutex::default() }
    }

    fn link_of(&self, profile: &str) -> Result<PathBuf, SecretError> {
        Ok(self.folder.join(checked_name(profile)?))
    }

    /// What the names of all folders of a profile begin with. No profile has a dot, so no other profile's do.
    fn prefix_of(profile: &str) -> Result<String, SecretError> {
        Ok(format!(".{}.", checked_name(profile)?))
    }

    /// Writes a credential that nobody reads yet, and gives the name of its version.
    fn write(&self, profile: &str, keys: &BTreeMap<&str, &str>) -> Result<String, SecretError> {
        let version = self.ids.tagged("v");
        let folder = self.folder.join(FileSecrets::prefix_of(profile)? + &version);
        make_folder(&folder)?;
        for (key, value) in keys {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(key))?;
            file.write_all(value.as_bytes())?;
            file.sync_all()?;
        }
        sync_folder(&folder)?;
        Ok(version)
    }

    /// Has everybody read this version from now on.
    fn point_to(&self, profile: &str, version: &str) -> Result<(), SecretError> {
        let (link, prefix) = (self.link_of(profile)?, FileSecrets::prefix_of(profile)?);
        let new = self.folder.join(format!("{prefix}{}", self.ids.tagged("link")));
        symlink(format!("{prefix}{version}"), &new)?;
        // A folder that an operator has made cannot be replaced by a link: it becomes a version that nobody reads any more.
        if fs::symlink_metadata(&link).is_ok_and(|facts| facts.is_dir()) {
            fs::rename(&link, self.folder.join(format!("{prefix}{}", self.ids.tagged("before"))))?;
        }
        fs::rename(&new, &link)?;
        Ok(sync_folder(&self.folder)?)
    }

    /// Removes the versions that nobody reads: those before, and what a crash has left.
    fn remove_others(&self, profile: &str, but: Option<&str>) -> Result<(), SecretError> {
        let prefix = FileSecrets::prefix_of(profile)?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(version) = name.as_bytes().strip_prefix(prefix.as_bytes()) else { continue };
            if but.is_some_and(|but| but.as_bytes() == version) {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(sync_folder(&self.folder)?)
    }
}

impl SecretStore for FileSecrets {
    fn put(&self, profile: &str, keys: &BTreeMap<&str, &str>) -> Result<String, SecretError> {
        if let Some(unknown) = keys.keys().find(|key| !KEYS.contains(key)) {
            return Err(SecretError::Name((*unknown).to_owned()));
        }
        let _writing = self.writing.lock();
        let version = self.write(profile, keys)?;
        self.point_to(profile, &version)?;
        self.remove_others(profile, Some(&version))?;
        Ok(version)
    }

    fn remove(&self, profile: &str) -> Result<(), SecretError> {
        let link = self.link_of(profile)?;
        let _writing = self.writing.lock();
        if !self.folder.try_exists()? {
            return Ok(());
        }
        match fs::symlink_metadata(&link) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
            Ok(facts) if facts.is_dir() => fs::remove_dir_all(&link)?,
            Ok(_) => fs::remove_file(&link)?,
        }
        sync_folder(&self.folder)?;
        self.remove_others(profile, None)
    }

    fn has(&self, profile: &str) -> Result<bool, SecretError> {
        Ok(self.link_of(profile)?.join(AUTH_JSON).try_exists()?)
    }

    fn versions(&self) -> Result<BTreeMap<String, Option<String>>, SecretError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries?,
        };
        let mut versions = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let profile = name.to_str().and_then(profile_of_secret);
            if let Some(profile) = profile.filter(|_| entry.path().join(AUTH_JSON).exists()) {
                versions.insert(profile.to_owned(), self.version(profile)?);
            }
        }
        Ok(versions)
    }

    fn read(&self, profile: &str) -> Result<StoredCredential, SecretError> {
        let folder = match fs::canonicalize(self.link_of(profile)?) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(StoredCredential::default()),
            folder => folder?,
        };
        let mut keys = BTreeMap::new();
        for key in KEYS {
            match fs::read_to_string(folder.join(key)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                value => drop(keys.insert(key.to_owned(), value?)),
            }
        }
        Ok(StoredCredential(keys))
    }

    fn version(&self, profile: &str) -> Result<Option<String>, SecretError> {
        let prefix = FileSecrets::prefix_of(profile)?;
        let target = match fs::read_link(self.link_of(profile)?) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => None,
            target => Some(target?),
        };
        let name = target.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
        Ok(name.and_then(|name| name.strip_prefix(&prefix)).map(str::to_owned))
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
    use std::sync::atomic::{AtomicBool, Ordering};
    use tempfile::TempDir;

    const NAME: &str = "agentrun-v01-provider-codex";

    fn store() -> (TempDir, PathBuf, FileSecrets) {
        let data = tempfile::tempdir().unwrap();
        let root = data.path().join("secrets");
        let secrets = FileSecrets::new(&root, &Ids::default());
        (data, root, secrets)
    }

    /// Both files, as a reader should read them: from one folder.
    fn read(root: &Path) -> Option<(String, Option<String>)> {
        let folder = root.join(fs::read_link(root.join(NAME)).ok()?);
        let config = fs::read_to_string(folder.join(CONFIG_TOML)).ok();
        Some((fs::read_to_string(folder.join(AUTH_JSON)).ok()?, config))
    }

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_credential_is_replaced_as_a_whole_and_only_its_owner_reads_it() {
        let (_data, root, secrets) = store();
        assert!(secrets.versions().unwrap().is_empty() && !secrets.has("codex").unwrap());
        secrets.remove("codex").unwrap();
        let both = BTreeMap::from([(AUTH_JSON, "{}"), (CONFIG_TOML, "a = 1")]);
        let first = secrets.put("codex", &both).unwrap();
        secrets.put("my-own", &BTreeMap::from([(AUTH_JSON, "{}")])).unwrap();
        assert_eq!(secrets.versions().unwrap().into_keys().collect::<Vec<_>>(), ["codex", "my-own"]);
        assert_eq!(secrets.version("codex").unwrap().as_ref(), Some(&first));

        let folder = root.join(NAME);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&root), mode(&folder), mode(&folder.join(AUTH_JSON))), (0o700, 0o700, 0o600));
        let second = secrets.put("codex", &BTreeMap::from([(AUTH_JSON, "{\"a\":1}")])).unwrap();
        assert!(second != first && secrets.version("codex").unwrap() == Some(second));
        assert_eq!(read(&root).unwrap(), ("{\"a\":1}".to_owned(), None));
        assert_eq!(names(&root).len(), 4, "{:?}", names(&root));

        secrets.remove("codex").unwrap();
        assert!(!secrets.has("codex").unwrap() && secrets.version("codex").unwrap().is_none());
        assert_eq!(names(&root).len(), 2, "{:?}", names(&root));
        assert_eq!(secrets.versions().unwrap().into_keys().collect::<Vec<_>>(), ["my-own"]);
        for bad in ["", "..", "../x", "a/b", "A", "-a", &"a".repeat(64)] {
            assert!(matches!(secrets.put(bad, &both), Err(SecretError::Name(_))), "{bad}");
            assert!(matches!(secrets.remove(bad), Err(SecretError::Name(_))), "{bad}");
        }
        let other = BTreeMap::from([("../x", "")]);
        assert!(matches!(secrets.put("codex", &other), Err(SecretError::Name(_))));
    }

    #[test]
    fn a_crash_in_between_leaves_the_key_with_its_own_configuration() {
        let (_data, root, secrets) = store();
        let pair = |n: u32| (format!("key {n}"), format!("url {n}"));
        let both = |(key, url): &(String, String)| {
            let keys = [(AUTH_JSON, key.clone()), (CONFIG_TOML, url.clone())];
            secrets.write("codex", &keys.iter().map(|(name, text)| (*name, text.as_str())).collect()).unwrap()
        };
        let seen = || read(&root).map(|(key, url)| (key, url.unwrap()));
        let first = both(&pair(1));
        assert_eq!((seen(), secrets.has("codex").unwrap()), (None, false), "nobody reads it yet");
        secrets.point_to("codex", &first).unwrap();
        assert_eq!(seen(), Some(pair(1)));
        // Crashes: before the link is replaced, and before what was there is removed.
        both(&pair(2));
        symlink("nowhere", root.join(format!(".{NAME}.link-left"))).unwrap();
        assert_eq!((seen(), secrets.version("codex").unwrap()), (Some(pair(1)), Some(first)));
        let third = both(&pair(3));
        secrets.point_to("codex", &third).unwrap();
        assert_eq!(seen(), Some(pair(3)));
        assert_eq!(names(&root).len(), 5, "{:?}", names(&root));
        let fourth = secrets.put("codex", &BTreeMap::from([(AUTH_JSON, "{}")])).unwrap();
        assert_eq!(names(&root), [format!(".{NAME}.{fourth}"), NAME.to_owned()], "nothing is left behind");
    }

    #[test]
    fn what_an_operator_has_put_there_is_read_and_replaced() {
        let (_data, root, secrets) = store();
        make_folder(&root.join(NAME)).unwrap();
        fs::write(root.join(NAME).join(AUTH_JSON), "{}").unwrap();
        assert!(secrets.has("codex").unwrap() && secrets.version("codex").unwrap().is_none());
        assert_eq!(secrets.versions().unwrap(), BTreeMap::from([("codex".to_owned(), None)]));
        secrets.put("codex", &BTreeMap::from([(AUTH_JSON, "{\"a\":1}")])).unwrap();
        assert_eq!((read(&root).unwrap().0.as_str(), names(&root).len()), ("{\"a\":1}", 2));
        secrets.remove("codex").unwrap();
        make_folder(&root.join(NAME)).unwrap();
        secrets.remove("codex").unwrap();
        assert!(names(&root).is_empty());
    }

    #[test]
    fn two_that_write_and_one_that_reads_never_see_a_part() {
        let (_data, root, secrets) = store();
        secrets.put("codex", &BTreeMap::from([(AUTH_JSON, "0"), (CONFIG_TOML, "0")])).unwrap();
        // Each is a process of its own, which another one waits for only while it swaps.
        let (one, two) = (FileSecrets::new(&root, &Ids::default()), FileSecrets::new(&root, &Ids::default()));
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let writing = [(&one, "1"), (&two, "2")].map(|(store, text)| {
                let long = text.repeat(20_000);
                threads.spawn(move || {
                    for _ in 0..20 {
                        let keys = BTreeMap::from([(AUTH_JSON, &*long), (CONFIG_TOML, &*long)]);
                        let version = store.write("codex", &keys).unwrap();
                        store.point_to("codex", &version).unwrap();
                    }
                })
            });
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let (key, config) = read(&root).expect("there is one all the time");
                    assert_eq!(Some(key), config);
                }
            });
            writing.into_iter().for_each(|thread| thread.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        one.put("codex", &BTreeMap::from([(AUTH_JSON, "{}")])).unwrap();
        assert_eq!(names(&root).len(), 2);
    }
}
