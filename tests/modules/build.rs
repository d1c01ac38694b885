//! Finds the integration tests: every folder with a `mod.rs`, and every Rust file, beside `tests/main.rs`.

use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    let tests =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the folder of the tests");
    println!("cargo::rerun-if-changed={}", tests.display());
    let mut modules = Vec::new();
    for entry in fs::read_dir(tests)? {
        modules.extend(module(&entry?.path()));
    }
    modules.sort();
    let modules: String = modules.iter().map(|name| format!("        mod {name};\n")).collect();
    save(&format!("#[macro_export]\nmacro_rules! integration_tests {{\n    () => {{\n{modules}    }};\n}}\n"))
}

/// The name of the module that a file or folder is.
fn module(path: &Path) -> Option<String> {
    let is_module = path.join("mod.rs").exists() || path.extension().is_some_and(|end| end == "rs");
    let name = path.file_stem()?.to_str()?;
    (is_module && name != "main").then(|| name.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "this is how cargo tells a build script where to write")]
fn save(source: &str) -> io::Result<()> {
    let folder = std::env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo did not set OUT_DIR"))?;
    fs::write(PathBuf::from(folder).join("modules.rs"), source)
}
