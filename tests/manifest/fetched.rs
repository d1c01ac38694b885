//! What other people made and is run here, never stored in the repository. Where it cannot be fetched, a test says so and checks less.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ring::digest::{SHA256, digest};

const AJV: &str = "ajv@8.20.0";

/// The validator jsonschema for Python has the official suite among its sources.
const SUITE: &str = "jsonschema==4.25.1";
const SUITE_FILE: &str = "jsonschema-4.25.1.tar.gz";
const SUITE_SHA256: &str = "e4a9655ce0da0c0b67a085847e00a3a51449e1157f4f75e9fb5aa545e122eb85";

/// A folder in which node finds ajv.
pub fn ajv() -> Option<PathBuf> {
    kept("ajv", |folder| {
        run(folder, &["node", "--version"])
            && run(folder, &["npm", "install", "--no-audit", "--no-fund", "--prefix", ".", AJV])
    })
}

/// The files of the official JSON Schema suite for 2020-12.
pub fn official_suite() -> Option<PathBuf> {
    let fetched = kept("json-schema-suite", |folder| {
        let download = ["python3", "-m", "pip", "download", "--no-deps", "--no-binary", "jsonschema", SUITE];
        run(folder, &download)
            && fs::read(folder.join(SUITE_FILE))
                .is_ok_and(|bytes| hex::encode(digest(&SHA256, &bytes)) == SUITE_SHA256)
            && run(folder, &["tar", "xzf", SUITE_FILE])
    })?;
    Some(fetched.join("jsonschema-4.25.1/json/tests/draft2020-12"))
}

/// A folder that was filled once, and is kept with what was built.
fn kept(name: &str, fill: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = all.join(name);
    if folder.exists() {
        return Some(folder);
    }
    fs::create_dir_all(all).expect("a folder can be made");
    let draft = tempfile::tempdir_in(all).expect("a folder can be made");
    if !fill(draft.path()) {
        eprintln!("{name} cannot be fetched: what it would say is not checked");
        return None;
    }
    // Another run of the tests may have been faster, which is just as well.
    let _ = fs::rename(draft.path(), &folder);
    folder.exists().then_some(folder)
}

fn run(folder: &Path, words: &[&str]) -> bool {
    let mut command = Command::new("timeout");
    command.arg("120").args(words).current_dir(folder).stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}
