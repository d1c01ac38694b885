//! The program of a back end in Bubblewrap: which folders it sees, and which of them it may write.

use anyhow::{Context as _, ensure};
use runner::BackEndProgram;
use std::path::{Path, PathBuf};

const BWRAP: &str = "bwrap";
/// The program ends with the runner, and sees no other processes. Its network is that of the machine.
const NAMESPACES: [&str; 4] = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"];
const WRITABLE: &str = "--bind";
const READ_ONLY: &str = "--ro-bind";
const EMPTY: &str = "--tmpfs";
const TEMPORARY: &str = "/tmp";

/// What an isolated back end may see and write. All paths are absolute and without links.
pub(super) struct BackEndIsolation {
    /// Folders that are empty for the program.
    pub hidden: Vec<PathBuf>,
    /// Folders that the program may write besides its workspace.
    pub writable: Vec<PathBuf>,
    pub is_workspace_read_only: bool,
    /// Whether the program may write everything that is not hidden.
    pub has_full_access: bool,
}

impl BackEndIsolation {
    /// The program as Bubblewrap starts it, with the same workspace and environment.
    pub fn isolated(&self, program: BackEndProgram) -> anyhow::Result<BackEndProgram> {
        ensure!(program.workspace.parent().is_some(), "/ cannot be the workspace of an isolated back end");
        let root = if self.has_full_access { WRITABLE } else { READ_ONLY };
        let mut arguments = Vec::from(NAMESPACES.map(str::to_owned));
        arguments.extend([root, "/", "/", "--dev", "/dev", "--proc", "/proc"].map(str::to_owned));
        for (option, path) in self.mounts(&program) {
            let path = text_of(path)?;
            arguments.push(option.to_owned());
            if option != EMPTY {
                arguments.push(path.to_owned());
            }
            arguments.push(path.to_owned());
        }
        let (workspace, file) = (text_of(&program.workspace)?, text_of(&program.program)?);
        arguments.extend(["--chdir", workspace, "--", file].map(str::to_owned));
        arguments.extend(program.arguments);
        Ok(BackEndProgram { program: PathBuf::from(BWRAP), arguments, ..program })
    }

    /// Bubblewrap mounts in this order, and a mount covers what was mounted below it. So outer folders come first: a hidden folder stays
    /// hidden below one that is writable, and the other way round. Of the same folder, the hidden one wins.
    fn mounts<'a>(&'a self, program: &'a BackEndProgram) -> Vec<(&'static str, &'a Path)> {
        // To mount the root again would undo everything, for instance where HOME is /.
        let writable = self.writable.iter().filter(|folder| folder.parent().is_some());
        let mut mounts: Vec<(&str, &Path)> = Vec::new();
        if self.has_own_temporary(program) {
            mounts.push((EMPTY, Path::new(TEMPORARY)));
        }
        mounts.extend(writable.map(|folder| (WRITABLE, folder.as_path())));
        let workspace = if self.is_workspace_read_only { READ_ONLY } else { WRITABLE };
        mounts.push((workspace, program.workspace.as_path()));
        mounts.extend(self.hidden.iter().map(|folder| (EMPTY, folder.as_path())));
        let file = program.program.as_path();
        if self.hidden.iter().any(|folder| file.starts_with(folder)) {
            mounts.push((READ_ONLY, file));
        }
        mounts.sort_by_key(|(_, path)| path.components().count());
        mounts
    }

    /// Programs write there whatever `TMPDIR` says; the sandbox of Codex does not start without it. A program that is there itself would
    /// be hidden with it, as would a workspace.
    fn has_own_temporary(&self, program: &BackEndProgram) -> bool {
        let is_there = program.workspace == Path::new(TEMPORARY) || program.program.starts_with(TEMPORARY);
        !self.has_full_access && !is_there
    }
}

/// Arguments of a back end are texts.
fn text_of(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| {
        format!("{} is not UTF-8: an isolated back end cannot be given such a path", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    const FIRST: &str = "--die-with-parent --unshare-pid --unshare-ipc --unshare-uts";

    fn program(program: &str, workspace: &str) -> BackEndProgram {
        BackEndProgram {
            program: program.into(),
            arguments: vec!["app-server".to_owned(), "--".to_owned()],
            workspace: workspace.into(),
            environment: vec![("NAME".into(), "value".into())],
        }
    }

    fn isolation(hidden: &[&str], writable: &[&str]) -> BackEndIsolation {
        BackEndIsolation {
            hidden: hidden.iter().map(PathBuf::from).collect(),
            writable: writable.iter().map(PathBuf::from).collect(),
            is_workspace_read_only: false,
            has_full_access: false,
        }
    }

    /// The mounts after those of the whole system, as words.
    fn mounts(isolation: &BackEndIsolation, of: BackEndProgram) -> String {
        let arguments = isolation.isolated(of).unwrap().arguments.join(" ");
        let (_, mounts) = arguments.split_once(" --proc /proc ").unwrap();
        let (mounts, _) = mounts.split_once(" --chdir ").unwrap();
        mounts.to_owned()
    }

    #[test]
    fn a_back_end_is_isolated() {
        let isolated = isolation(&["/data"], &["/data/home", "/tmp/job", "/data/sessions/one"]);
        let isolated = isolated.isolated(program("codex", "/work/space")).unwrap();
        assert_eq!(isolated.program, Path::new("bwrap"));
        assert_eq!(isolated.workspace, Path::new("/work/space"));
        assert_eq!(isolated.environment, program("codex", "/").environment);
        assert_eq!(
            isolated.arguments.join(" "),
            format!(
                "{FIRST} --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /data --bind /data/home /data/home \
                 --bind /tmp/job /tmp/job --bind /work/space /work/space --bind /data/sessions/one /data/sessions/one \
                 --chdir /work/space -- codex app-server --"
            )
        );
    }

    #[test]
    fn a_workspace_may_be_read_only_and_the_system_writable() {
        let read_only = BackEndIsolation { is_workspace_read_only: true, ..isolation(&[], &["/home/one"]) };
        assert_eq!(
            mounts(&read_only, program("codex", "/work")),
            "--tmpfs /tmp --ro-bind /work /work --bind /home/one /home/one"
        );
        let full = BackEndIsolation { has_full_access: true, ..isolation(&["/data"], &[]) };
        let arguments = full.isolated(program("codex", "/work")).unwrap().arguments.join(" ");
        assert_eq!(
            arguments,
            format!(
                "{FIRST} --bind / / --dev /dev --proc /proc --bind /work /work --tmpfs /data --chdir /work -- codex app-server --"
            )
        );
    }

    #[test]
    fn what_is_hidden_stays_hidden_below_a_folder_that_is_not() {
        let isolation =
            isolation(&["/home/one/data", "/keys"], &["/home/one", "/home/one/data/home", "/keys", "/"]);
        assert_eq!(
            mounts(&isolation, program("codex", "/home/one/data/work")),
            "--tmpfs /tmp --bind /keys /keys --tmpfs /keys --bind /home/one /home/one --tmpfs /home/one/data \
             --bind /home/one/data/home /home/one/data/home --bind /home/one/data/work /home/one/data/work"
        );
    }

    #[test]
    fn a_program_in_a_hidden_folder_is_visible() {
        let isolation = isolation(&["/data"], &[]);
        assert_eq!(
            mounts(&isolation, program("/data/bin/aund", "/work")),
            "--tmpfs /tmp --bind /work /work --tmpfs /data --ro-bind /data/bin/aund /data/bin/aund"
        );
        for elsewhere in ["/database/aund", "/usr/bin/codex", "codex"] {
            assert_eq!(
                mounts(&isolation, program(elsewhere, "/work")),
                "--tmpfs /tmp --bind /work /work --tmpfs /data"
            );
        }
    }

    #[test]
    fn a_program_in_the_temporary_folder_keeps_it() {
        let isolation = isolation(&[], &[]);
        assert_eq!(mounts(&isolation, program("/tmp/agent", "/work")), "--bind /work /work");
        assert_eq!(mounts(&isolation, program("agent", "/tmp")), "--bind /tmp /tmp");
        assert_eq!(mounts(&isolation, program("agent", "/tmp/one")), "--tmpfs /tmp --bind /tmp/one /tmp/one");
    }

    #[test]
    fn what_cannot_be_isolated_is_refused() {
        let isolation = isolation(&[], &[]);
        assert!(isolation.isolated(program("codex", "/")).is_err());
        let mut unreadable = program("codex", "/work");
        unreadable.workspace = Path::new("/work").join(OsStr::from_bytes(b"\xff"));
        assert!(isolation.isolated(unreadable).is_err());
    }
}
