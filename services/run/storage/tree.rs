//! A folder that somebody else fills: measured and removed, however deep it is and whatever its permissions are.
//!
//! Each name is looked up in a folder that is open, and links are not followed, so nothing that is put in the place of a folder meanwhile
//! leads out of the tree. However deep that is, at most four descriptors are open.

use super::StorageMeasure;
use kernel::sha256_hex;
use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, chmod, fchmod, fstat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::replace;
use std::path::Path;

/// How many files and folders are measured: whoever fills a folder with more must not keep the server busy.
pub(super) const MOST_MEASURED: usize = 100_000;
/// Bytes that the paths of those may have.
const MOST_PATH_BYTES: usize = 16 << 20;
/// How many files and folders are removed before others have their turn.
pub(super) const MOST_REMOVED: usize = 1_000_000;
/// How many names of one folder are read before those are removed.
const NAMES_AT_ONCE: usize = 10_000;
/// How often a folder is measured anew because one in it was moved meanwhile.
const ATTEMPTS: usize = 3;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// What looking into a folder takes, and what changing it takes.
const TO_READ: Mode = Mode::RUSR.union(Mode::XUSR);
const TO_CHANGE: Mode = Mode::RWXU;

/// What a folder has. A runner may work in it meanwhile: what has gone when it is looked at is not counted.
pub(super) fn measure(parent: &Path, name: &CStr, most: usize) -> io::Result<StorageMeasure> {
    for _ in 0..ATTEMPTS {
        let root = open_folder(&open(parent, FOLDER, Mode::empty())?, name, TO_READ)?;
        if let Some(measured) = (MeasuredTree { most, ..MeasuredTree::default() }).walk(root)? {
            return Ok(measured);
        }
    }
    Err(io::Error::other("folders are moved while they are measured"))
}

/// Removes a folder with everything in it. Where links lead to stays.
pub(super) fn remove(parent: &Path, name: &CStr, most: usize) -> io::Result<()> {
    let parent = match open(parent, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        parent => parent?,
    };
    let top = match open_folder(&parent, name, TO_CHANGE) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlinkat(&parent, name, AtFlags::empty())?),
        top => top?,
    };
    RemovedTree { top, moved: 0, left: most }.empty()?;
    Ok(gone(unlinkat(&parent, name, AtFlags::REMOVEDIR))?)
}

/// Opens a folder, with these permissions at least.
fn open_folder(parent: impl AsFd, name: &CStr, needed: Mode) -> Result<OwnedFd, Errno> {
    let folder = match openat(&parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            permit(&parent, name)?;
            openat(&parent, name, FOLDER, Mode::empty())?
        }
        folder => folder?,
    };
    if !Mode::from_raw_mode(fstat(&folder)?.st_mode).contains(needed) {
        fchmod(&folder, Mode::RWXU)?;
    }
    Ok(folder)
}

/// Permits the server to open a folder. `fchmodat` would follow a link, and a place that is only named needs no permission to be opened.
fn permit(parent: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(parent, name, place, Mode::empty())?;
    chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::RWXU)
}

/// What is not there any more is removed.
fn gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

fn is_own_or_parent(name: &CStr) -> bool {
    name == c"." || name == c".."
}

/// Which folder it is, whatever it is called.
fn identity(folder: &OwnedFd) -> Result<(u64, u64), Errno> {
    let facts = fstat(folder)?;
    Ok((facts.st_dev, facts.st_ino))
}

/// What was found so far.
#[derive(Default)]
struct MeasuredTree {
    most: usize,
    entries: usize,
    path_bytes: usize,
    /// The paths of files and their sizes.
    files: Vec<(Vec<u8>, u64)>,
}

/// A folder above the one that is being read, and the folders in it that are not read yet.
struct FolderAbove {
    identity: (u64, u64),
    waiting: Vec<CString>,
    path_bytes: usize,
}

impl MeasuredTree {
    /// Goes down and up with one folder open. `None` if the folder above is not where it was: it was moved meanwhile.
    fn walk(mut self, root: OwnedFd) -> Result<Option<StorageMeasure>, Errno> {
        let (mut at, mut path, mut above) = (root, Vec::new(), Vec::<FolderAbove>::new());
        let Some(mut waiting) = self.read(&at, &path)? else { return Ok(Some(self.unfinished())) };
        loop {
            if let Some(name) = waiting.pop() {
                let folder = match open_folder(&at, &name, TO_READ) {
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                    folder => folder?,
                };
                let (identity, path_bytes) = (identity(&at)?, path.len());
                path.extend_from_slice(name.to_bytes());
                path.push(b'/');
                let Some(inside) = self.read(&folder, &path)? else { return Ok(Some(self.unfinished())) };
                above.push(FolderAbove { identity, waiting: replace(&mut waiting, inside), path_bytes });
                at = folder;
            } else if let Some(last) = above.pop() {
                let parent = match openat(&at, c"..", FOLDER, Mode::empty()) {
                    Err(Errno::NOENT) => return Ok(None),
                    parent => parent?,
                };
                if identity(&parent)? != last.identity {
                    return Ok(None);
                }
                (at, waiting) = (parent, last.waiting);
                path.truncate(last.path_bytes);
            } else {
                return Ok(Some(self.finished()));
            }
        }
    }

    /// Notes the files of a folder, and gives the folders in it. `None` if there is more than is measured.
    fn read(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<Option<Vec<CString>>, Errno> {
        let mut folders = Vec::new();
        let entries = match Dir::read_from(folder) {
            Err(Errno::NOENT) => return Ok(Some(folders)),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if is_own_or_parent(name) {
                continue;
            }
            self.entries += 1;
            self.path_bytes += path.len() + name.to_bytes().len();
            if self.entries > self.most || self.path_bytes > MOST_PATH_BYTES {
                return Ok(None);
            }
            // Of a link itself, not of where it leads to: that is not in this folder.
            let facts = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                facts => facts?,
            };
            match FileType::from_raw_mode(facts.st_mode) {
                FileType::Directory => folders.push(name.to_owned()),
                _ => {
                    let size = u64::try_from(facts.st_size).unwrap_or_default();
                    self.files.push(([path, name.to_bytes()].concat(), size));
                }
            }
        }
        Ok(Some(folders))
    }

    /// Without a hash: the folder has more than that.
    fn unfinished(self) -> StorageMeasure {
        let bytes = self.files.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        StorageMeasure {
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            files: i64::try_from(self.files.len()).unwrap_or(i64::MAX),
            sha256: None,
        }
    }

    fn finished(mut self) -> StorageMeasure {
        self.files.sort();
        let mut manifest = Vec::new();
        for (path, bytes) in &self.files {
            manifest.extend_from_slice(path);
            manifest.extend_from_slice(format!("\0{bytes}\n").as_bytes());
        }
        StorageMeasure { sha256: Some(sha256_hex(manifest)), ..self.unfinished() }
    }
}

/// A folder that is removed. What is in its folders is moved up into it, so it is never deeper than two, and what a crash leaves behind is
/// removed by the next attempt.
struct RemovedTree {
    top: OwnedFd,
    moved: usize,
    left: usize,
}

impl RemovedTree {
    fn empty(&mut self) -> io::Result<()> {
        loop {
            let names = self.names_in(None)?;
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                match unlinkat(&self.top, &name, AtFlags::empty()) {
                    Err(Errno::ISDIR) => self.remove_folder(&name)?,
                    removed => gone(removed)?,
                }
            }
        }
    }

    /// Removes a folder that is at the top.
    fn remove_folder(&mut self, name: &CStr) -> io::Result<()> {
        let folder = match open_folder(&self.top, name, TO_CHANGE) {
            Err(Errno::NOENT) => return Ok(()),
            folder => folder?,
        };
        loop {
            let inside = self.names_in(Some(&folder))?;
            if inside.is_empty() {
                return Ok(gone(unlinkat(&self.top, name, AtFlags::REMOVEDIR))?);
            }
            for name in inside {
                match unlinkat(&folder, &name, AtFlags::empty()) {
                    Err(Errno::ISDIR) => gone(self.move_up(&folder, &name))?,
                    removed => gone(removed)?,
                }
            }
        }
    }

    /// Moves a folder to the top, under a name that none has there; an empty one that has it may be replaced.
    fn move_up(&mut self, parent: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        // One that may not be changed cannot be moved either.
        open_folder(parent, name, TO_CHANGE)?;
        loop {
            self.moved += 1;
            match renameat(parent, name, &self.top, format!(".removed-{}", self.moved)) {
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                moved => return moved,
            }
        }
    }

    /// Some names that are in a folder, or at the top.
    fn names_in(&mut self, folder: Option<&OwnedFd>) -> io::Result<Vec<CString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(folder.unwrap_or(&self.top))? {
            let entry = entry?;
            if names.len() == NAMES_AT_ONCE {
                break;
            }
            if !is_own_or_parent(entry.file_name()) {
                names.push(entry.file_name().to_owned());
            }
        }
        match self.left.checked_sub(names.len()) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other("there is more in it than is removed at once")),
        }
        Ok(names)
    }
}
