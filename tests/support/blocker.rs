//! A lock on a service's store, held by another process until it is told to release it. Readers are not disturbed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::TestServer;

pub struct Blocker(Child);

impl Blocker {
    /// Keeps every writer out of a service's table.
    pub fn hold(server: &TestServer, service: &str, table: &str) -> Blocker {
        let mut child = match server.store().split_once("?schema_prefix=") {
            None => sqlite(server, service),
            Some((url, prefix)) => postgres(url, &format!("{prefix}{service}.{table}")),
        };
        assert_eq!(line(&mut child), "held");
        Blocker(child)
    }

    pub fn release(mut self) {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        stdin.write_all(b"ROLLBACK; SELECT 'free';\n").expect("it listens");
        assert_eq!(line(&mut self.0), "free");
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sqlite(server: &TestServer, service: &str) -> Child {
    let script = "import sqlite3, sys\n\
                  held = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n\
                  held.execute('BEGIN EXCLUSIVE')\n\
                  print('held', flush=True)\n\
                  sys.stdin.readline()\n\
                  held.execute('ROLLBACK')\n\
                  print('free', flush=True)\n";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(server.data().join(format!("{service}.db")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is there")
}

fn postgres(url: &str, table: &str) -> Child {
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", url]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql is there");
    let take = format!("BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE; SELECT 'held';\n");
    child.stdin.as_mut().expect("a pipe").write_all(take.as_bytes()).expect("it listens");
    child
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::with_capacity(1, stdout).read_line(&mut line).expect("it speaks");
    line.trim().to_owned()
}
