//! The images of a turn as files that the back end reads.

use crate::back_end::TurnImage;
use crate::back_end::attachment::ImageKind;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What the name of the folder of a turn begins with.
const PREFIX: &str = "aund-attachments-";

/// A folder with the images of one turn, for their owner alone. With this they are removed.
pub(in crate::work) struct TurnFiles {
    path: PathBuf,
    folder: OwnedFd,
    images: Vec<TurnImage>,
}

impl TurnFiles {
    /// A new folder. An isolated back end may write where it is made, and is itself kept from what this process may write: so nothing that
    /// is there already is used, no link is followed, and files are made in the folder that was opened, whatever has its name by then.
    pub fn new(below: &Path, command_id: &str) -> io::Result<TurnFiles> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=128).contains(&command_id.len()) || !command_id.bytes().all(is_plain) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the id of the command is no name of a folder",
            ));
        }
        let name = format!("{PREFIX}{command_id}");
        let opened = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat(CWD, below, opened, Mode::empty())?;
        mkdirat(&parent, &name, Mode::RWXU)?;
        let folder = openat(&parent, &name, opened | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(TurnFiles { path: below.join(name), folder, images: Vec::new() })
    }

    /// One more image. It waits for the disk, as one write of a few MiB may.
    pub fn write(&mut self, number: usize, kind: ImageKind, bytes: &[u8]) -> io::Result<()> {
        let name = format!("{number}.{}", kind.extension());
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.folder, &name, new, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(bytes)?;
        self.images.push(TurnImage { path: self.path.join(name), mime_type: kind.mime_type().to_owned() });
        Ok(())
    }

    pub fn images(&self) -> &[TurnImage] {
        &self.images
    }
}

impl Drop for TurnFiles {
    fn drop(&mut self) {
        // What cannot be removed is below the temporary folder of the job, which is removed with it. No link is followed.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_images_of_a_turn_are_there_for_their_owner_until_it_has_ended() {
        let below = tempfile::tempdir().unwrap();
        let mut files = TurnFiles::new(below.path(), "cmd_1").unwrap();
        let mut others = TurnFiles::new(below.path(), "cmd_2").unwrap();
        files.write(1, ImageKind::Png, b"one").unwrap();
        files.write(2, ImageKind::Jpeg, b"two").unwrap();
        others.write(1, ImageKind::Gif, b"three").unwrap();
        let folder = below.path().join("aund-attachments-cmd_1");
        let found: Vec<_> =
            files.images().iter().map(|image| (image.path.clone(), image.mime_type.as_str())).collect();
        assert_eq!(found, [(folder.join("1.png"), "image/png"), (folder.join("2.jpg"), "image/jpeg")]);
        assert_eq!(fs::read(folder.join("2.jpg")).unwrap(), b"two");
        assert_eq!((mode(&folder), mode(&folder.join("1.png"))), (0o700, 0o600));
        assert!(files.write(1, ImageKind::Png, b"again").is_err());
        fs::write(folder.join("of the back end"), "").unwrap();
        drop(files);
        assert!(!folder.exists() && others.images()[0].path.exists());
        drop(others);
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 0);
    }

    #[test]
    fn nothing_that_is_there_already_is_used() {
        let (below, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = below.path().join("aund-attachments-cmd_1");
        symlink(outside.path(), &folder).unwrap();
        assert!(TurnFiles::new(below.path(), "cmd_1").is_err());
        assert!(folder.is_symlink(), "what was not made is not removed");
        // Exchanged for a link afterwards.
        let mut files = TurnFiles::new(below.path(), "cmd_2").unwrap();
        let folder = below.path().join("aund-attachments-cmd_2");
        fs::rename(&folder, below.path().join("moved")).unwrap();
        symlink(outside.path(), &folder).unwrap();
        files.write(1, ImageKind::Png, b"one").unwrap();
        fs::write(outside.path().join("mine"), "").unwrap();
        drop(files);
        assert!(outside.path().join("mine").exists() && !outside.path().join("1.png").exists());
    }

    #[test]
    fn a_command_names_no_path() {
        let below = tempfile::tempdir().unwrap();
        for id in ["", ".", "a/b", "../a", "a\0", "ä", &"a".repeat(200)] {
            assert!(TurnFiles::new(below.path(), id).is_err(), "{id:?}");
        }
        assert!(TurnFiles::new(&below.path().join("none"), "cmd_1").is_err());
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 0);
    }
}
