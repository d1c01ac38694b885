//! A PostgreSQL database of the test's own, which can be closed without disturbing others.

use std::process::Command;

use super::agent::random_hex;
use super::{printed, setting};

pub struct TestDatabase {
    url: String,
    name: String,
}

impl TestDatabase {
    pub fn new() -> TestDatabase {
        let url = setting("AUND_TEST_POSTGRES_URL").expect("AUND_TEST_POSTGRES_URL says where PostgreSQL is");
        let database = TestDatabase { url, name: format!("t{}", random_hex(8)) };
        database.run(&format!("CREATE DATABASE {}", database.name));
        database
    }

    pub fn store(&self) -> String {
        let (server, _) = self.url.rsplit_once('/').expect("a URL names a database");
        format!("{server}/{}", self.name)
    }

    /// Ends all connections and refuses new ones.
    pub fn close(&self) {
        self.run(&format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false", self.name));
        self.run(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
    }

    pub fn open(&self) {
        self.run(&format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS true", self.name));
    }

    fn run(&self, sql: &str) {
        let output = Command::new("psql").args(["--no-psqlrc", "--quiet", &self.url, "-c", sql]).output();
        let output = output.expect("psql is there");
        assert!(output.status.success(), "{}", printed(&output.stderr));
    }
}
