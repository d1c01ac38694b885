//! A service's store, read by somebody else.

use std::process::Command;

use super::{TestServer, printed};

impl TestServer {
    /// The one value that a query of a service's tables finds.
    pub fn read_store(&self, service: &str, query: &str) -> String {
        let mut command;
        match self.store().split_once("?schema_prefix=") {
            None => {
                command = Command::new("sqlite3");
                command.arg("-readonly").arg(self.data().join(format!("{service}.db"))).arg(query);
            }
            Some((url, prefix)) => {
                let query = format!("SET search_path TO {prefix}{service}; {query}");
                command = Command::new("psql");
                command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", url, "-c", &query]);
            }
        }
        let output = command.output().expect("the store's own program is there");
        assert!(output.status.success(), "{}", printed(&output.stderr));
        printed(&output.stdout).trim().to_owned()
    }
}
