//! The limits of a store, and what is measured to hold them.

use super::DiskReading;
use crate::{Db, StoreUrl};
use anyhow::Context as _;
use rustix::fs::statvfs;
use std::path::Path;

/// What stays free where the operator says nothing: 1 GiB, but of a small disk no more than its twentieth part.
const FREE_BYTES: u64 = 1 << 30;
const FREE_SHARE: u64 = 20;

/// How much may be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreLimits {
    /// Of SQLite: what has to stay free on its disk. It is taken as it is, however small the disk.
    pub free_bytes: Option<u64>,
    /// Of PostgreSQL: what its schemas may hold. Without it nothing is measured.
    pub bytes: Option<u64>,
}

impl StoreLimits {
    /// Measures the space of a store; None if nothing limits it.
    pub async fn measure(&self, store: &StoreUrl, data: &Path) -> anyhow::Result<Option<DiskReading>> {
        match (store.folder(data), self.bytes) {
            (Some(folder), _) => self.measure_disk(folder).await.map(Some),
            (None, Some(limit)) => Ok(Some(DiskReading::of_schemas(Db::schema_bytes(store).await?, limit))),
            (None, None) => Ok(None),
        }
    }

    /// A thread may wait for the disk, above all for one in the network.
    async fn measure_disk(&self, folder: &Path) -> anyhow::Result<DiskReading> {
        let (path, at) = (folder.to_owned(), folder.display());
        let disk = tokio::task::spawn_blocking(move || statvfs(path)).await?;
        let disk = disk.with_context(|| format!("the free space of {at} cannot be read"))?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(DiskReading::of_disk(bytes(disk.f_bavail), self.kept_free(bytes(disk.f_blocks))))
    }

    fn kept_free(&self, disk_bytes: u64) -> u64 {
        self.free_bytes.unwrap_or_else(|| FREE_BYTES.min(disk_bytes / FREE_SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskSpace, Durability};
    use sqlx::migrate::Migrator;

    #[test]
    fn a_small_disk_has_a_smaller_default_and_a_setting_is_taken_as_it_is() {
        let default = StoreLimits::default();
        assert_eq!(default.kept_free(1 << 40), 1 << 30);
        assert_eq!(default.kept_free(1 << 30), (1 << 30) / 20);
        let set = StoreLimits { free_bytes: Some(7 << 30), bytes: None };
        assert_eq!(set.kept_free(1 << 30), 7 << 30);
    }

    #[tokio::test]
    async fn a_store_is_measured_by_its_disk_or_by_its_schemas() {
        let (folder, store) = (tempfile::tempdir().unwrap(), testing::store_url().parse().unwrap());
        let migrations = Migrator::with_migrations(Vec::new());
        let service = proto_schemas::services().next().unwrap();
        let db = Db::open(&store, folder.path(), service, &migrations, Durability::Full).await.unwrap();
        sqlx::query("CREATE TABLE thing (id BIGINT PRIMARY KEY)").execute(db.write_alone()).await.unwrap();

        let most = StoreLimits { free_bytes: Some(u64::MAX), bytes: Some(1) };
        let full = most.measure(&store, folder.path()).await.unwrap().unwrap();
        assert_eq!(full.space(), DiskSpace::Full);
        let least = StoreLimits { free_bytes: Some(0), bytes: Some(u64::MAX) };
        let enough = least.measure(&store, folder.path()).await.unwrap().unwrap();
        assert_eq!(enough.space(), DiskSpace::Enough);
        assert!(enough.free > 0);
        let unset = StoreLimits::default().measure(&store, folder.path()).await.unwrap();
        assert_eq!(unset.is_some(), store.folder(folder.path()).is_some(), "PostgreSQL has no default");
    }
}
