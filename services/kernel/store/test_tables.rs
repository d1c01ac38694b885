//! A database with tables of a test's own, on the engine that the tests run with.

use super::{Db, Durability};
use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use tempfile::TempDir;

pub(crate) struct TestTables {
    pub db: Db,
    _folder: TempDir,
}

impl TestTables {
    pub async fn open(sql: &'static str) -> TestTables {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store_url().parse().unwrap();
        let migration = Migration::new(1, "tables".into(), MigrationType::Simple, sql.into_sql_str(), false);
        let migrations = Migrator::with_migrations(vec![migration]);
        let db = Db::open(&store, folder.path(), "test", &migrations, Durability::Full).await.unwrap();
        TestTables { db, _folder: folder }
    }
}
