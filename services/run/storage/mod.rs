//! Storage of sessions: a folder for each, named as the volume that it stands for.

mod tree;

use kernel::Cache;
use kernel::files::make_folder;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Mutex as Turn, Semaphore};
use tree::{MOST_MEASURED, MOST_REMOVED};

/// What this is in the records of sessions.
pub(crate) const BACKEND: &str = "dir";
const VOLUME: &str = "agentrun-v01-session-";
const ID: &str = "sess_";
const ID_DIGITS: usize = 32;
/// How many folders are measured at once.
const MEASURED_AT_ONCE: usize = 4;
/// For how many sessions it is remembered that the log has the failure of their folders already.
const MOST_FAILED: usize = 10_000;

/// The name of the volume of a session.
pub(crate) fn pvc_name(session_id: &str) -> String {
    format!("{VOLUME}{session_id}")
}

/// The folders of sessions. What waits for the disk does so off the threads that answer.
pub(crate) struct SessionStorage {
    folder: PathBuf,
    /// One at a time measures the folder of a session, and those who wait for it take what it has found.
    measuring: Mutex<HashMap<String, Arc<Turn<Option<StorageMeasure>>>>>,
    measured_at_once: Arc<Semaphore>,
    failed: Mutex<Cache<String, ()>>,
    /// Where the removal of folders goes on: one that cannot be removed must not keep others from their turn.
    removed_up_to: Mutex<String>,
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
        SessionStorage {
            folder: data.join("sessions"),
            measuring: Mutex::default(),
            measured_at_once: Arc::new(Semaphore::new(MEASURED_AT_ONCE)),
            failed: Mutex::new(Cache::new(MOST_FAILED)),
            removed_up_to: Mutex::default(),
        }
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

    /// The folder of all sessions, and the name of this one in it.
    fn place(&self, session_id: &str) -> io::Result<(PathBuf, CString)> {
        self.path(session_id)?;
        Ok((self.folder.clone(), CString::new(pvc_name(session_id))?))
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
        work(move || match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            facts => Ok(facts?.is_dir()),
        })
        .await
    }

    /// Whoever asks while the folder is measured is told what that finds, also if who asked first has gone.
    pub async fn measure(&self, session_id: &str) -> io::Result<StorageMeasure> {
        let (folder, name) = self.place(session_id)?;
        let turn = self.measuring.lock().entry(session_id.to_owned()).or_default().clone();
        let (mut found, waited) = match turn.clone().try_lock_owned() {
            Ok(found) => (found, false),
            Err(_) => (turn.clone().lock_owned().await, true),
        };
        drop(turn);
        let measured = match found.clone().filter(|_| waited) {
            Some(measured) => Ok(measured),
            None => {
                let allowed =
                    self.measured_at_once.clone().acquire_owned().await.map_err(io::Error::other)?;
                work(move || {
                    let _allowed = allowed;
                    let measured = tree::measure(&folder, &name, MOST_MEASURED)?;
                    *found = Some(measured.clone());
                    Ok(measured)
                })
                .await
            }
        };
        self.measuring.lock().retain(|_, turn| Arc::strong_count(turn) > 1);
        measured
    }

    /// Removes the folder with everything in it. Where links lead to stays.
    pub async fn remove(&self, session_id: &str) -> io::Result<()> {
        let (folder, name) = self.place(session_id)?;
        work(move || tree::remove(&folder, &name, MOST_REMOVED)).await?;
        self.failed.lock().remove(session_id);
        Ok(())
    }

    /// Says in the log that something failed in the folder of a session: once, however often it is tried again.
    pub fn log_failure(&self, session_id: &str, what: &str, error: &dyn std::fmt::Display) {
        let mut failed = self.failed.lock();
        if failed.get(session_id).is_none() {
            failed.insert(session_id.to_owned(), ());
            tracing::warn!(session = session_id, "the folder of the session could not be {what}: {error}");
        }
    }

    /// After which session the removal of folders goes on.
    pub fn removed_up_to(&self) -> String {
        self.removed_up_to.lock().clone()
    }

    pub fn go_on_after(&self, session_id: &str) {
        session_id.clone_into(&mut self.removed_up_to.lock());
    }
}

/// Removes a folder of this name with everything in it, whatever permissions are there. One that is not there is removed already.
pub(crate) fn remove_folder(parent: &Path, name: &str) -> io::Result<()> {
    tree::remove(parent, &CString::new(name)?, MOST_REMOVED)
}

async fn work<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::Duration;
    use tempfile::TempDir;

    const SESSION: &str = "sess_0190163d868b7ce2a5f1c1b6d0b3a7e4";

    async fn created() -> (TempDir, SessionStorage, PathBuf) {
        let data = tempfile::tempdir().unwrap();
        let storage = SessionStorage::new(data.path());
        storage.create(SESSION).await.unwrap();
        let path = storage.path(SESSION).unwrap();
        (data, storage, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn a_folder_is_made_measured_and_removed() {
        let data = tempfile::tempdir().unwrap();
        let storage = SessionStorage::new(data.path());
        assert!(!storage.exists(SESSION).await.unwrap());
        storage.remove(SESSION).await.unwrap();
        storage.create(SESSION).await.unwrap();
        assert!(storage.exists(SESSION).await.unwrap());
        let path = storage.path(SESSION).unwrap();
        assert!(path.ends_with("sessions/agentrun-v01-session-sess_0190163d868b7ce2a5f1c1b6d0b3a7e4"));
        assert_eq!(mode(&path), 0o700);
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
        let (folder, name) = storage.place(SESSION).unwrap();
        let cut = tree::measure(&folder, &name, 2).unwrap();
        assert!(cut.sha256.is_none() && cut.files <= 2, "{cut:?}");

        let most = tree::remove(&folder, &name, 2).unwrap_err();
        assert!(most.to_string().contains("more in it"), "{most}");
        storage.remove(SESSION).await.unwrap();
        storage.remove(SESSION).await.unwrap();
        assert!(!storage.exists(SESSION).await.unwrap() && outside.join("big").exists());
        assert_eq!(storage.measure(SESSION).await.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn only_ids_of_this_server_become_paths() {
        let storage = SessionStorage::new(Path::new("/data"));
        let upper = SESSION.to_ascii_uppercase();
        for bad in ["", "sess_", "sess_../../../etc", &SESSION[1..], &format!("{SESSION}0"), &upper] {
            assert!(storage.path(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn folders_without_permissions_are_measured_and_removed() {
        let (_data, storage, path) = created().await;
        fs::create_dir_all(path.join("closed/inside")).unwrap();
        fs::write(path.join("closed/inside/file"), [0; 70]).unwrap();
        fs::create_dir_all(path.join("fixed/inside")).unwrap();
        set_mode(&path.join("closed/inside"), 0o000);
        set_mode(&path.join("closed"), 0o000);
        set_mode(&path.join("fixed/inside"), 0o555);
        set_mode(&path.join("fixed"), 0o555);
        set_mode(&path, 0o000);
        let measured = storage.measure(SESSION).await.unwrap();
        assert_eq!((measured.bytes, measured.files, measured.sha256.is_some()), (70, 1, true));
        assert_eq!((mode(&path), mode(&path.join("closed"))), (0o700, 0o700));
        assert_eq!(mode(&path.join("fixed")), 0o555, "what can be read stays as it is");
        set_mode(&path.join("closed"), 0o000);
        storage.remove(SESSION).await.unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_folder_may_be_deeper_than_a_path_is_long_and_descriptors_are_many() {
        const DEPTH: usize = 5000;
        let (_data, storage, path) = created().await;
        let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at: OwnedFd = openat(CWD, &path, open, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            mkdirat(&at, "deeper", Mode::RWXU).unwrap();
            mkdirat(&at, ".removed-1", Mode::RWXU).unwrap();
            at = openat(&at, "deeper", open, Mode::empty()).unwrap();
        }
        let file =
            openat(&at, "file", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RWXU).unwrap();
        rustix::io::write(&file, b"12345").unwrap();
        let measured = storage.measure(SESSION).await.unwrap();
        // The paths of so many are more than is remembered.
        assert!(measured.sha256.is_none(), "{measured:?}");
        storage.remove(SESSION).await.unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_deep_folder_is_measured_to_its_end() {
        let (_data, storage, path) = created().await;
        let mut deep = path.clone();
        for _ in 0..300 {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), b"12345").unwrap();
        fs::write(path.join("first"), b"1").unwrap();
        let measured = storage.measure(SESSION).await.unwrap();
        assert_eq!((measured.bytes, measured.files, measured.sha256.is_some()), (6, 2, true));
    }

    #[tokio::test]
    async fn a_link_in_the_place_of_the_folder_is_not_followed() {
        let (data, storage, path) = created().await;
        let outside = data.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("big"), [0; 5000]).unwrap();
        fs::remove_dir(&path).unwrap();
        symlink(&outside, &path).unwrap();
        assert!(!storage.exists(SESSION).await.unwrap());
        assert!(storage.measure(SESSION).await.is_err());
        storage.remove(SESSION).await.unwrap();
        assert!(outside.join("big").exists() && fs::symlink_metadata(&path).is_err());
    }

    #[tokio::test]
    async fn whoever_asks_meanwhile_waits_for_the_measurement_that_runs() {
        let (_data, storage, path) = created().await;
        let turn = storage.measuring.lock().entry(SESSION.to_owned()).or_default().clone();
        let mut running = turn.clone().lock_owned().await;
        let waiting = storage.measure(SESSION);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut waiting).await.is_err());
        let found = StorageMeasure { bytes: 7, files: 1, sha256: None };
        *running = Some(found.clone());
        drop(running);
        assert_eq!(waiting.await.unwrap(), found);
        drop(turn);
        fs::write(path.join("one"), [0; 3]).unwrap();
        assert_eq!(storage.measure(SESSION).await.unwrap().bytes, 3, "the next one measures");
        assert!(storage.measuring.lock().is_empty());
    }
}
