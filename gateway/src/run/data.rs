//! The data folder: one server at a time uses it.

use anyhow::{Context as _, bail};
use kernel::files;
use std::fs::{self, File, TryLockError};
use std::path::Path;

/// Keeps other servers out. The operating system holds the lock and drops it with the process, however that ends.
pub fn lock_data(data: &Path) -> anyhow::Result<File> {
    files::make_folder(data).with_context(|| format!("cannot create the data folder {}", data.display()))?;
    let file = data.join("aund.lock");
    let lock = File::create(&file).with_context(|| format!("{} cannot be written", file.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => bail!("another aund is using the data folder {}", data.display()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", file.display()))
        }
    }
}

/// Whether the data folder was ever used by a server.
pub fn is_initialised(data: &Path) -> bool {
    fs::exists(data.join("pki/ca/issuer.crt")).unwrap_or(false)
}
