//! The folders of runners: for each job what its processes need and the log, and for runs without a session the storage.

use crate::storage::remove_folder;
use kernel::files::make_folder;
use kernel::sha256_hex;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const JOBS: &str = "jobs";
const STORAGE: &str = "storage";

/// Where runners of this server are on its disk. The calls wait for the disk.
#[derive(Clone, Debug)]
pub(super) struct RunnerFolders {
    root: PathBuf,
}

/// The folders of one job.
#[derive(Clone, Debug)]
pub(super) struct JobFolders {
    pub home: PathBuf,
    pub temporary: PathBuf,
    pub log: PathBuf,
}

impl RunnerFolders {
    pub fn new(data: &Path) -> RunnerFolders {
        RunnerFolders { root: data.join("runners") }
    }

    /// The name of the server that looks after the processes of this folder, and the lock that makes it the only one on this machine. Other
    /// machines may share the folder: their processes are not seen here. A second server has a name that nobody knows after its end.
    pub fn owner(&self, machine: &str, new_name: &str) -> io::Result<(String, Option<File>)> {
        make_folder(&self.root)?;
        let lock = private().create(true).truncate(false).open(self.root.join(format!("{machine}.lock")))?;
        match lock.try_lock() {
            Ok(()) => Ok((machine.to_owned(), Some(lock))),
            Err(TryLockError::WouldBlock) => Ok((new_name.to_owned(), None)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The folders of a job, by the opaque name of its log.
    pub fn make(&self, log_ref: &str) -> io::Result<(JobFolders, File)> {
        let job = self.root.join(JOBS).join(log_ref);
        let folders = JobFolders { home: job.join("home"), temporary: job.join("tmp"), log: job.join("log") };
        make_folder(&folders.home)?;
        make_folder(&folders.temporary)?;
        let log = private().create(true).append(true).open(&folders.log)?;
        Ok((folders, log))
    }

    /// Where the back end of a run without a session keeps what it needs.
    pub fn storage_of(&self, run_id: &str) -> PathBuf {
        self.root.join(STORAGE).join(run_id)
    }

    /// What a job does not need after its end: everything but its log.
    pub fn remove_homes(&self, log_ref: &str) -> io::Result<()> {
        let job = self.root.join(JOBS).join(log_ref);
        remove_folder(&job, "home")?;
        remove_folder(&job, "tmp")
    }

    /// The logs of jobs that have more than a log.
    pub fn jobs_with_homes(&self) -> io::Result<BTreeSet<String>> {
        let jobs = self.root.join(JOBS);
        let has_home = |name: &String| ["home", "tmp"].iter().any(|part| jobs.join(name).join(part).exists());
        Ok(names(&jobs)?.into_iter().filter(has_home).collect())
    }

    pub fn remove_storage(&self, run_id: &str) -> io::Result<()> {
        remove_folder(&self.root.join(STORAGE), run_id)
    }

    /// The runs that have storage of their own here.
    pub fn stored_runs(&self) -> io::Result<Vec<String>> {
        names(&self.root.join(STORAGE))
    }

    /// Removes jobs whose logs nobody has written into since then, but for those that run.
    pub fn remove_older(&self, than: SystemTime, running: &BTreeSet<String>) -> io::Result<usize> {
        let (jobs, mut removed) = (self.root.join(JOBS), 0);
        for name in names(&jobs)? {
            let written = |path: &Path| fs::metadata(path).and_then(|facts| facts.modified());
            // One without a log may be just about to be made.
            let job = jobs.join(&name);
            let written = written(&job.join("log")).or_else(|_| written(&job));
            let is_old = written.is_ok_and(|at| at < than);
            if is_old && !running.contains(&name) {
                remove_folder(&jobs, &name)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// A name for everything that sees the same processes: a machine from its start to its end, or a container on it.
pub(super) fn machine() -> io::Result<String> {
    let start = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let processes = fs::read_link("/proc/self/ns/pid")?;
    let hash = sha256_hex(format!("{} {}", start.trim(), processes.display()));
    Ok(format!("machine-{}", hash.get(..16).unwrap_or_default()))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => Ok(entries?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    #[test]
    fn one_server_of_a_machine_looks_after_a_folder() {
        let data = tempfile::tempdir().unwrap();
        let folders = RunnerFolders::new(data.path());
        let here = machine().unwrap();
        assert_eq!(machine().unwrap(), here);
        let (name, lock) = folders.owner(&here, "first").unwrap();
        assert!(name == here && lock.is_some());
        let (other, none) = folders.owner(&here, "second").unwrap();
        assert!(other == "second" && none.is_none(), "another server has the folder");
        let (elsewhere, own) = folders.owner("machine-2", "third").unwrap();
        assert!(elsewhere == "machine-2" && own.is_some());
        drop(lock);
        let (again, lock) = folders.owner(&here, "fourth").unwrap();
        assert!(again == here && lock.is_some());
    }

    #[test]
    fn a_job_has_private_folders_and_only_its_log_stays() {
        let data = tempfile::tempdir().unwrap();
        let folders = RunnerFolders::new(data.path());
        let (job, _log) = folders.make("log_1").unwrap();
        assert_eq!(folders.jobs_with_homes().unwrap(), BTreeSet::from(["log_1".to_owned()]));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&job.home), mode(&job.temporary), mode(&job.log)), (0o700, 0o700, 0o600));
        fs::write(job.home.join("auth.json"), "{}").unwrap();
        folders.remove_homes("log_1").unwrap();
        folders.remove_homes("log_1").unwrap();
        assert!(!job.home.exists() && !job.temporary.exists() && job.log.exists());
        assert!(folders.jobs_with_homes().unwrap().is_empty());

        let written = fs::metadata(&job.log).unwrap().modified().unwrap();
        assert_eq!(folders.remove_older(written, &BTreeSet::new()).unwrap(), 0);
        let later = written + Duration::from_secs(1);
        assert_eq!(folders.remove_older(later, &BTreeSet::from(["log_1".to_owned()])).unwrap(), 0);
        assert_eq!(folders.remove_older(later, &BTreeSet::new()).unwrap(), 1);
        assert!(!job.log.exists());

        let begun = data.path().join("runners/jobs/log_2");
        fs::create_dir(&begun).unwrap();
        let made = fs::metadata(&begun).unwrap().modified().unwrap();
        assert_eq!(folders.remove_older(made, &BTreeSet::new()).unwrap(), 0, "its log will be there");
        assert_eq!(folders.remove_older(made + Duration::from_secs(1), &BTreeSet::new()).unwrap(), 1);
    }

    #[test]
    fn the_storage_of_a_run_is_listed_until_it_is_removed() {
        let data = tempfile::tempdir().unwrap();
        let folders = RunnerFolders::new(data.path());
        assert!(folders.stored_runs().unwrap().is_empty());
        fs::create_dir_all(folders.storage_of("run_1").join("codex")).unwrap();
        assert_eq!(folders.stored_runs().unwrap(), ["run_1"]);
        folders.remove_storage("run_1").unwrap();
        folders.remove_storage("run_1").unwrap();
        assert!(folders.stored_runs().unwrap().is_empty());
    }
}
