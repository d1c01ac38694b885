//! Storage of sessions: a folder for each, named as the volume that it stands for.

use kernel::files::make_folder;
use kernel::sha256_hex;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What this is in the records of sessions.
pub(crate) const BACKEND: &str = "dir";
const VOLUME: &str = "agentrun-v01-session-";
const ID: &str = "sess_";
const ID_DIGITS: usize = 32;
/// How many files and folders are measured: whoever fills a folder with more must not keep the server busy.
const MOST_ENTRIES: usize = 100_000;

/// The name of the volume of a session.
pub(crate) fn pvc_name(session_id: &str) -> String {
    format!("{VOLUME}{session_id}")
}

/// The folders of sessions. What waits for the disk does so off the threads that answer.
#[derive(Clone)]
pub(crate) struct SessionStorage {
    folder: PathBuf,
}

/// What a folder has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageMeasure {
    pub bytes: i64,
    pub files: i64,
    /// Of the paths and sizes, sorted. Without it the folder has more than is measured, and the numbers are lower than the truth.
    pub sha256: Option<String>,
}

impl SessionStorage {
    pub fn new(data: &Path) -> SessionStorage {
        SessionStorage { folder: data.join("sessions") }
    }

    /// Where the storage of a session is. Only ids that this server makes become paths.
    pub fn path(&self, session_id: &str) -> io::Result<PathBuf> {
        let digits = session_id.strip_prefix(ID).unwrap_or_default();
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match digits.len() == ID_DIGITS && digits.bytes().all(lower_hex) {
            true => Ok(self.folder.join(pvc_name(session_id))),
            false => Err(io::Error::new(ErrorKind::InvalidInput, "not the id of a session")),
        }
    }

    /// Makes an empty folder, which is there also after a loss of power.
    pub async fn create(&self, session_id: &str) -> io::Result<()> {
        let (path, folder) = (self.path(session_id)?, self.folder.clone());
        work(move || {
            make_folder(&path)?;
            File::open(folder)?.sync_all()
        })
        .await
    }

    pub async fn exists(&self, session_id: &str) -> io::Result<bool> {
        let path = self.path(session_id)?;
        work(move || path.try_exists()).await
    }

    pub async fn measure(&self, session_id: &str) -> io::Result<StorageMeasure> {
        let path = self.path(session_id)?;
        work(move || measure(&path, MOST_ENTRIES)).await
    }

    /// Removes the folder with everything in it. Where links lead to stays.
    pub async fn remove(&self, session_id: &str) -> io::Result<()> {
        let path = self.path(session_id)?;
        work(move || match fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
        .await
    }
}

async fn work<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// A runner may work in the folder meanwhile: what has gone when it is looked at is not counted.
fn measure(root: &Path, most: usize) -> io::Result<StorageMeasure> {
    let mut files: Vec<(PathBuf, u64)> = Vec::new();
    let (mut folders, mut entries) = (vec![root.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        let listed = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound && folder != root => continue,
            listed => listed?,
        };
        for entry in listed {
            if entries == most {
                return Ok(of_files(&files, None));
            }
            entries += 1;
            let path = entry?.path();
            // Of the link itself, not of where it leads to: that is not in this folder.
            let facts = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                facts => facts?,
            };
            match facts.is_dir() {
                true => folders.push(path),
                false => files.push((path, facts.len())),
            }
        }
    }
    files.sort();
    let mut manifest = Vec::new();
    for (path, bytes) in &files {
        manifest.extend_from_slice(path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes());
        manifest.extend_from_slice(format!("\0{bytes}\n").as_bytes());
    }
    Ok(of_files(&files, Some(sha256_hex(manifest))))
}

fn of_files(files: &[(PathBuf, u64)], sha256: Option<String>) -> StorageMeasure {
    let bytes: u64 = files.iter().map(|(_, bytes)| *bytes).sum();
    StorageMeasure {
        bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        files: i64::try_from(files.len()).unwrap_or(i64::MAX),
        sha256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const SESSION: &str = "sess_0190163d868b7ce2a5f1c1b6d0b3a7e4";

    #[tokio::test]
    async fn a_folder_is_made_measured_and_removed() {
        let data = tempfile::tempdir().unwrap();
        let storage = SessionStorage::new(data.path());
        assert!(!storage.exists(SESSION).await.unwrap());
        storage.create(SESSION).await.unwrap();
        assert!(storage.exists(SESSION).await.unwrap());
        let path = storage.path(SESSION).unwrap();
        assert!(path.ends_with("sessions/agentrun-v01-session-sess_0190163d868b7ce2a5f1c1b6d0b3a7e4"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let empty = storage.measure(SESSION).await.unwrap();
        assert_eq!((empty.bytes, empty.files), (0, 0));

        let outside = data.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("big"), [0; 5000]).unwrap();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/two"), [0; 20]).unwrap();
        fs::write(path.join("one"), [0; 3]).unwrap();
        symlink(&outside, path.join("link")).unwrap();
        symlink(&path, path.join("a/circle")).unwrap();
        let measured = storage.measure(SESSION).await.unwrap();
        assert_eq!(measured.files, 4);
        assert!((23..1000).contains(&measured.bytes), "{measured:?}");
        assert_eq!(storage.measure(SESSION).await.unwrap(), measured, "it does not depend on the order");
        fs::rename(path.join("one"), path.join("other")).unwrap();
        let renamed = storage.measure(SESSION).await.unwrap();
        assert!(renamed.bytes == measured.bytes && renamed.sha256 != measured.sha256);
        let cut = measure(&path, 2).unwrap();
        assert!(cut.sha256.is_none() && cut.files <= 2, "{cut:?}");

        storage.remove(SESSION).await.unwrap();
        storage.remove(SESSION).await.unwrap();
        assert!(!storage.exists(SESSION).await.unwrap() && outside.join("big").exists());
        assert!(storage.measure(SESSION).await.is_err());
    }

    #[test]
    fn only_ids_of_this_server_become_paths() {
        let storage = SessionStorage::new(Path::new("/data"));
        let upper = SESSION.to_ascii_uppercase();
        for bad in ["", "sess_", "sess_../../../etc", &SESSION[1..], &format!("{SESSION}0"), &upper] {
            assert!(storage.path(bad).is_err(), "{bad}");
        }
    }
}
