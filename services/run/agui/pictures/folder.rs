//! The files of pictures. Several processes of this service share their folder.

use super::signing::PicturePath;
use kernel::files::make_folder;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(crate) struct PictureFolder {
    folder: PathBuf,
}

impl PictureFolder {
    pub fn new(data: &Path) -> PictureFolder {
        PictureFolder { folder: data.join("pictures") }
    }

    fn file(&self, path: &PicturePath) -> PathBuf {
        self.folder.join(path.owner()).join(path.name())
    }

    /// A new file, which is there also after a loss of power.
    pub async fn write(&self, path: &PicturePath, bytes: Vec<u8>) -> io::Result<()> {
        let file = self.file(path);
        work(move || {
            let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
            make_folder(&folder)?;
            let mut open = File::create_new(&file)?;
            let written = open.write_all(&bytes).and_then(|()| open.sync_all());
            if written.is_err() {
                let _ = fs::remove_file(&file);
            }
            written?;
            File::open(folder)?.sync_all()
        })
        .await
    }

    pub async fn read(&self, path: &PicturePath) -> io::Result<Option<Vec<u8>>> {
        let file = self.file(path);
        work(move || match fs::read(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        })
        .await
    }

    /// One that is gone is removed already.
    pub async fn remove(&self, path: &PicturePath) -> io::Result<()> {
        let file = self.file(path);
        work(move || match fs::remove_file(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
        .await
    }
}

/// What waits for the disk does so off the threads that answer.
async fn work<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
